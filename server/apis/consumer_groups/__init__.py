"""Handlers of requests about groups of the consumer protocol (KIP-848), and the search for topics that match their
patterns.
"""
