"""Networks as modules, which know neither tasks nor mechanisms."""
