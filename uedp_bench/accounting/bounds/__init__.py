"""Epsilon from below: what attacks refuted, with confidence."""
