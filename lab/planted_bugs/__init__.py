"""Planted bugs: known bugs of coordinators and consumers, to test whether the lab finds them."""
