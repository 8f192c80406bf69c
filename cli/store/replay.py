"""The job of `regroup replay`: the state of the groups at a position, as JSON."""

import asyncio
import json
import sys
from argparse import Namespace
from typing import Any

from regroup.cli.jobs import CannotRun
from regroup.cli.store.group_json import with_decoded_bytes
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import group_as_json


def run(args: Namespace) -> int:
    json.dump(asyncio.run(state_at(args)), sys.stdout, indent=2, ensure_ascii=False)
    print()
    return 0


async def state_at(args: Namespace) -> dict[str, Any]:
    """Fold the events up to --at. Raises CannotRun for an unknown position or group."""
    async with await open_store_to_read(args.store) as store:
        first, last = store.trimmed_through, store.last_position
        at = last if args.at is None else args.at
        if not first <= at <= last:
            raise CannotRun(f"unknown position {at}; the store holds {first} to {last}")
        groups = await load_groups(store, until=at)
    shown = {name: group for name, group in sorted(groups.items()) if args.group in (None, name)}
    if args.group is not None and not shown:
        raise CannotRun(f"{unknown_group(args.group, groups)}, at position {at}")
    return {
        "position": at,
        "groups": {name: with_decoded_bytes(group_as_json(group)) for name, group in shown.items()},
    }
