"""What stands for the part of a history that has been trimmed away."""

import asyncio
from pathlib import Path
from typing import Any

from regroup.pipeline.source.columns import SNAPSHOT
from regroup.storage.errors import StoreIsDamaged
from regroup.storage.sqlite.inline import open_inline_store


def snapshots_of(path: Path, trimmed_through: int) -> list[dict[str, Any]]:
    """Each group's snapshot at the cut behind which reading begins, in the columns of an event. Raises a StoreError."""
    try:
        return asyncio.run(read(path, trimmed_through))
    except UnicodeDecodeError as error:
        raise StoreIsDamaged(f"{path} is damaged: a snapshot is no text ({error}). Restore it from a copy.") from error


async def read(path: Path, trimmed_through: int) -> list[dict[str, Any]]:
    async with await open_inline_store(path, read_only=True) as store:
        _, snapshots = await store.load_snapshots(trimmed_through)
    return [
        {
            "position": each.position,
            "group": each.group,
            "number": each.number,
            "reign": each.reign,
            "at_ms": 0,
            "type": SNAPSHOT,
            "version": each.version,
            "payload": each.payload.decode(),
            "cause": None,
        }
        for each in snapshots
        if each.group is not None
    ]
