"""Annotation of texts by what is already known of the person whom they are about."""
