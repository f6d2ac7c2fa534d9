"""Parts that tasks on rows of tokens share: vocabularies, padded rows, pre-training."""
