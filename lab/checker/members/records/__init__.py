"""What members read, process and produce: positions, results, and the records that producers send."""
