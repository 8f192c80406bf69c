"""The Spark data source `regroup`: events read from SQLite stores."""
