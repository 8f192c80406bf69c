"""The disk fails at any moment, also while the store is reopened. The emulator always recovers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.errors import StoreError, StoreFailed, StoreFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from tests.robustness.member import RESPONSE_TIMEOUT_S, RetryingMember, missing, running, wait_until


class FailingStore(MemoryStore):
    """A store whose writes, and whose reopening, fail on request."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[bool] = []
        """The outcomes of the next writes: True fails. When the list is used up, all writes succeed."""

    def _write(self) -> None:
        if self.failures and self.failures.pop(0):
            raise StoreFull("There is no room: free some disk space.")

    async def append(self, records: Sequence[NewRecord]) -> int:
        await asyncio.sleep(0)  # other tasks run meanwhile, as with a real disk
        self._write()
        return await super().append(records)

    async def next_coordinator_epoch(self) -> int:
        await asyncio.sleep(0)
        self._write()
        return await super().next_coordinator_epoch()

    async def close(self) -> None:
        if self.failures:
            raise StoreFailed("The store cannot be closed.")


@pytest.fixture
def short_reopen_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INITIAL_REOPEN_DELAY_S", "MAX_REOPEN_DELAY_S"):
        monkeypatch.setattr(f"regroup.server.history.opening.{name}", 0.01)


async def start_cluster(store: FailingStore) -> BrokerCluster:
    settings = CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)
    cluster = await BrokerCluster.start(store.open, ClusterOptions(settings=settings))
    await cluster.ensure_topic("orders", 4)
    return cluster


async def stored_events(store: FailingStore) -> list[Mapping[str, Any]]:
    return [{"type": each.type, **msgspec.json.decode(each.payload)} async for each in store.read()]


@pytest.mark.usefixtures("short_reopen_delay")
@pytest.mark.parametrize("succeeding", range(6))
@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_a_store_that_fails_again_while_it_is_reopened_is_reopened_again(succeeding: int, failing: int) -> None:
    """One write fails; then some succeed, which belong to the reopening or follow it; then some more fail."""
    store = FailingStore()
    cluster = await start_cluster(store)
    address = "{}:{}".format(*cluster.address)
    members = [RetryingMember(f"member-{n}", address, partition=n, session_timeout_ms=10_000) for n in range(2)]
    async with running(*members):
        await wait_until(lambda: all(each.committed > 3 for each in members), "the first commits")
        store.failures = [True, *[False] * succeeding, *[True] * failing]
        await wait_until(lambda: not store.failures, "the failures")
        before = [each.committed for each in members]
        await wait_until(
            lambda: all(each.committed > n + 3 for each, n in zip(members, before, strict=True)), "recovery"
        )
    await cluster.close()
    events = await stored_events(store)
    assert not [event for each in members for event in missing(each.acknowledged, events)]


@pytest.mark.usefixtures("short_reopen_delay")
async def test_a_topic_that_is_created_during_the_load_fails_the_reopening_and_not_the_emulator() -> None:
    """The journal alone sees this failure: there is no group whose load could fail."""
    store = FailingStore()
    cluster = await start_cluster(store)
    store.failures = [True, False, True, True, False, True]

    async def topic_is_created() -> bool:
        try:
            await cluster.ensure_topic("invoices", 2)
        except StoreError:
            return False
        return True

    recovered = False
    async with asyncio.timeout(RESPONSE_TIMEOUT_S):
        while store.failures or not recovered:
            recovered = await topic_is_created() and cluster.journal.failure is None
            await asyncio.sleep(0)  # an attempt at every step of the reopening
    await cluster.close()
    created = [each for each in await stored_events(store) if each["type"] == "topic-created"]
    assert [each["name"] for each in created] == ["orders", "invoices"]


@pytest.mark.usefixtures("short_reopen_delay")
async def test_a_store_that_keeps_failing_is_logged_less_and_less_often() -> None:
    store = FailingStore()
    cluster = await start_cluster(store)
    store.failures = [True, *[True] * 9]
    with capture_logs() as lines:
        with pytest.raises(StoreError):
            await cluster.ensure_topic("invoices", 2)
        await wait_until(lambda: any(line["event"] == "store-reopened" for line in lines), "the reopening")
    await cluster.close()
    assert [line["tries"] for line in lines if line["event"] == "store-still-fails"] == [1, 2, 4, 8]
