"""Accountants, one file each: events in, epsilon out."""
