"""An emulator within this process that makes the choices which Apache Kafka has made before it."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import uuid4

from regroup.coordinator.settings import Settings
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.releases import release_named, releases
from regroup.storage.memory import MemoryStore


class Steered(NamedTuple):
    """Where it listens, and the way to tell it who shall lead."""

    emulator: Emulator

    @property
    def address(self) -> str:
        host, port = self.emulator.address
        return f"{host}:{port}"

    def favours(self, group_id: str, member_id: str) -> None:
        """If the group needs another leader, it shall be this member."""
        (coordinator,) = self.emulator.shares.coordinators
        coordinator.favours(group_id, member_id)


@asynccontextmanager
async def steered_emulator(settings: Mapping[str, str]) -> AsyncIterator[Steered]:
    """One broker of the newest release, with those of these settings that are a coordinator's."""
    *_, newest = releases()
    store = MemoryStore()
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=Settings.from_texts({name: settings[name] for name in Settings.names() if name in settings}),
        release=release_named(newest),
    )
    await emulator.start()
    try:
        yield Steered(emulator)
    finally:
        await emulator.close()
