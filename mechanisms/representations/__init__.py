"""Mechanisms on the representation between an encoder and a head."""
