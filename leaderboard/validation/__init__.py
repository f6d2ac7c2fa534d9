"""What is checked of a submitted result, one kind of check a file; see `leaderboard.validate`."""
