"""The disk fails at any moment, also while its failure is being mended. The emulator always comes back."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from structlog.testing import capture_logs

from regroup.coordinator.settings import Settings
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.errors import StoreError, StoreFailed, StoreIsFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from tests.fire.member import ANSWERED_WITHIN_S, Member, living, missing, until


class Disk(MemoryStore):
    """Refuses writes, and being opened, when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[bool] = []
        """What becomes of the next writes: True is a refusal. When the list is used up, all goes well again."""

    def _written(self) -> None:
        if self.refusals and self.refusals.pop(0):
            raise StoreIsFull("There is no room: free some disk space.")

    async def append(self, records: Sequence[NewRecord]) -> int:
        await asyncio.sleep(0)  # as a real disk would
        self._written()
        return await super().append(records)

    async def next_reign(self) -> int:
        await asyncio.sleep(0)
        self._written()
        return await super().next_reign()

    async def close(self) -> None:
        if self.refusals:
            raise StoreFailed("It could not even be closed.")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("REOPEN_PAUSE_S", "LONGEST_REOPEN_PAUSE_S"):
        monkeypatch.setattr(f"regroup.server.broker_cluster.{pause}", 0.01)


async def started(disk: Disk) -> Emulator:
    settings = Settings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)
    clock = Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic)
    emulator = Emulator(disk.open, clock=clock, new_uuid=uuid4, settings=settings)
    await emulator.start()
    await emulator.ensure_topic("orders", 4)
    return emulator


async def events_of(disk: Disk) -> list[Mapping[str, Any]]:
    return [{"type": each.type, **msgspec.json.decode(each.payload)} async for each in disk.read()]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("good", range(6))
@pytest.mark.parametrize("bad", [1, 2, 3])
async def test_a_disk_that_fails_again_while_it_is_mended_is_mended_again(good: int, bad: int) -> None:
    """One refusal, `good` writes that succeed (somewhere in the repair, or behind it), `bad` refusals more."""
    disk = Disk()
    emulator = await started(disk)
    address = "{}:{}".format(*emulator.address)
    members = [Member(f"member-{n}", address, partition=n, session_timeout_ms=10_000) for n in range(2)]
    async with living(*members):
        await until(lambda: all(each.committed > 3 for each in members), "the first commits")
        disk.refusals = [True, *[False] * good, *[True] * bad]
        await until(lambda: not disk.refusals, "the failures")
        before = [each.committed for each in members]
        await until(lambda: all(each.committed > n + 3 for each, n in zip(members, before, strict=True)), "recovery")
    await emulator.close()
    events = await events_of(disk)
    assert not [lost for each in members for lost in missing(each.acknowledged, events)]


@pytest.mark.usefixtures("hasty")
async def test_a_topic_made_while_groups_are_loaded_fails_the_repair_and_not_the_emulator() -> None:
    """Nobody but the journal sees this failure: no group exists whose takeover could meet it."""
    disk = Disk()
    emulator = await started(disk)
    disk.refusals = [True, False, True, True, False, True]

    async def topic_is_made() -> bool:
        try:
            await emulator.ensure_topic("invoices", 2)
        except StoreError:
            return False
        return True

    mended = False
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while disk.refusals or not mended:
            mended = await topic_is_made() and emulator.journal.failure is None
            await asyncio.sleep(0)  # every moment of the repair shall see an attempt
    await emulator.close()
    made = [each for each in await events_of(disk) if each["type"] == "topic-created"]
    assert [each["name"] for each in made] == ["orders", "invoices"]


@pytest.mark.usefixtures("hasty")
async def test_a_disk_that_stays_full_is_told_of_less_and_less_often() -> None:
    disk = Disk()
    emulator = await started(disk)
    disk.refusals = [True, *[True] * 9]
    with capture_logs() as told:
        with pytest.raises(StoreError):
            await emulator.ensure_topic("invoices", 2)
        await until(lambda: any(line["event"] == "store-reopened" for line in told), "the repair")
    await emulator.close()
    assert [line["tries"] for line in told if line["event"] == "store-still-fails"] == [1, 2, 4, 8]
