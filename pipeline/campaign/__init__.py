"""Campaigns: grids of simulated scenarios, run on Spark with many seeds."""
