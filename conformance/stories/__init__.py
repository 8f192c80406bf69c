"""The stories, a file or two an area; importing this package enters them all into `CASES`."""

from importlib import import_module

from regroup.conformance.harness.cases import CASES

__all__ = ["CASES"]

FILES = (
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
    "recovery",
)

for file in FILES:
    import_module(f"regroup.conformance.stories.{file}")
