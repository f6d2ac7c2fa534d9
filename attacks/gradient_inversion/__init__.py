"""What a party of a protocol reads in the messages that it was sent."""
