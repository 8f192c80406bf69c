"""Bugs, planted to see whether the lab finds them."""
