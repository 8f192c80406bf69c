"""Folds the events of one group to a timeline."""
