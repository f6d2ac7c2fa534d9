"""What other tools made of text, read from their files."""
