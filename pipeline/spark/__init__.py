"""The Spark session: the Java runtime it needs, its settings, and the progress of its jobs."""
