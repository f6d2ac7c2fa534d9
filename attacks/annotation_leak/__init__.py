"""Facts of records that a released tagger remembers."""
