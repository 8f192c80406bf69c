"""A lesson as values: its parts, its texts in two languages, and how they are read from YAML."""
