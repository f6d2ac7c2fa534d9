"""The leaderboard: tables and pages from result files."""
