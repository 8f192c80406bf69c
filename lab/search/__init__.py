"""Searching: plans drawn from seeds, hunts over many seeds, shrinking, and the detection of planted bugs."""
