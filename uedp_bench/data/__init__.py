"""Tables in: delimited, JSON and parquet files, their columns and cells."""
