"""The embedded corpus: generated text that needs no file."""
