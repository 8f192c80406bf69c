"""The stories, one file an area; importing this package enters them all."""

from importlib import import_module

AREAS = (
    "join",
    "sync",
    "heartbeat",
    "leave",
    "static",
    "leader",
    "timeout",
    "protocol",
    "limits",
    "describe",
    "lists",
    "delete",
    "offset_commit",
    "offset_fetch",
    "offset_delete",
    "txn_offset",
    "validation",
    "recovery",
)

for area in AREAS:
    import_module(f"regroup.conformance.stories.{area}")
