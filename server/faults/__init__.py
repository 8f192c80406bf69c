"""Faults that tests and users ask for: rules that match requests, and what they do to a request or its response."""
