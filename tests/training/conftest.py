"""Fixtures of trainings."""

from rank_team import team as team
