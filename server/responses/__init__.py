"""Responses that a broker gives without a coordinator: an error for a whole request, or for partitions of it."""
