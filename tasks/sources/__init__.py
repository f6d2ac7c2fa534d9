"""Sources, one file per data set or format."""
