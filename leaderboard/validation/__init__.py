"""Checks of a submitted result, one kind a file; see `leaderboard.validate`."""
