"""Rare situations of drawn plans: each module draws the steps of one kind, with random streams of their own."""
