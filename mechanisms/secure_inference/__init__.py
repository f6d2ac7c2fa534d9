"""Mechanisms that answer at inference by a protocol between two parties."""
