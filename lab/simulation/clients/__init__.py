"""Simulated clients that are no members: administrators, silent new members, and producers with transactions."""
