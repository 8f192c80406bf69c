"""Makes responses that need no coordinator: an error for a whole request, or for partitions of it."""
