"""Membership inference, on every release that gives losses or classes."""
