"""From the histories of many runs to tables, and from tables to answers, on Spark."""
