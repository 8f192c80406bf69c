"""Bronze: copies of many stores' events as Parquet, in blocks that an interrupted ingest does not repeat."""
