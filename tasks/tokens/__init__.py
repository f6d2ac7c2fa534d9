"""What tasks on rows of tokens share: vocabularies, padded rows, public pre-training."""
