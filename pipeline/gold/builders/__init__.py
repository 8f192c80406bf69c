"""Builders of the tables: each gets the events of one group in order, and yields rows when they are complete."""
