"""Annotation of texts by records of the person whom they are about."""
