"""Data pipeline on Spark: event stores and campaigns of simulations in, Parquet tables and a report out."""
