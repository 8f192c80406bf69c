"""Differential runs: random courses of requests that are played to two brokers, whose responses are compared."""
