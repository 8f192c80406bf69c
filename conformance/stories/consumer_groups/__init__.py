"""Stories about groups of the consumer protocol (KIP-848); importing this package registers all of them in `CASES`."""

from importlib import import_module

# In this order they are listed and published.
for area in (
    "validation",
    "join",
    "epochs",
    "responses",
    "reconciliation",
    "sessions",
    "static",
    "regexes",
    "topics",
    "offset_commit",
    "offset_fetch",
    "admin",
    "upgrade",
    "classic_members",
    "crossing",
    "failover",
):
    import_module(f"regroup.conformance.stories.consumer_groups.{area}")
