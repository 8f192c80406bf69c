"""Explains why something happened to a group: chains of causes in sentences, computed from events and recorded
exchanges.
"""
