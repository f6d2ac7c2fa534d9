"""One run: plant, publish, train, score, attack, account, assemble."""
