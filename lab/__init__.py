"""Chaos in virtual time, from one seed."""
