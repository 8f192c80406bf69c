"""The report of many runs: statistics as Parquet, and an HTML page with SVG plots."""
