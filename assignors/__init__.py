"""Kafka's assignors: pure functions from members and partitions to an assignment.

`registry.assignor_named` returns one by name; `interface.Assignor` is the base class for your own.
"""
