"""A party of a protocol reads the messages that it was sent."""
