"""`parallel-embedded`: invented medical sentences in simple German and English, by a grammar."""
