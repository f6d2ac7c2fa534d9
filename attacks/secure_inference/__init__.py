"""What a protocol between two parties shows, and what its answers show in spite of it."""
