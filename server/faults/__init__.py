"""Faults on request: rules that match requests, and what happens to a request or its response then."""
