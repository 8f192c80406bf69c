"""The stories, a file or two for each area; importing this package registers all of them in `CASES`."""

from importlib import import_module

from regroup.conformance.harness.cases import CASES

__all__ = ["CASES"]

# In this order they are listed and published.
for area in (
    "join",
    "join_again",
    "sync",
    "heartbeat",
    "leave",
    "static",
    "leader",
    "initial_delay",
    "timeout",
    "session",
    "simultaneous",
    "protocol",
    "limits",
    "describe",
    "lists",
    "delete",
    "offset_commit",
    "offset_fetch",
    "offset_delete",
    "deleted_topic",
    "txn_offset",
    "validation",
    "answers",
    "odd_requests",
    "recovery",
    "consumer_groups",
):
    import_module(f"regroup.conformance.stories.{area}")
