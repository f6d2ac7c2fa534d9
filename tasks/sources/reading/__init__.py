"""Parts that sources share: opening files, columns, splits, public text."""
