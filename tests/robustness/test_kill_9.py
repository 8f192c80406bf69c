"""`kill -9` at random moments while members join and leave: all acknowledged events are there after the restart."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.clients.emulator import EmulatorProcess, run_regroup
from tests.clients.processes import Serve
from tests.robustness.attacks import memory_mb
from tests.robustness.member import Acknowledgement, RetryingMember, missing, running, wait_until

GROUPS = ("payments", "shipping")


def new_members(address: str) -> Iterator[RetryingMember]:
    """Three members per group: one that stays, and two that leave and join again as new members."""
    for group in GROUPS:
        for partition, leaves_after in enumerate((None, 3, 7)):
            name = f"{group}-{partition}"
            yield RetryingMember(
                name, address, group=group, partition=partition, session_timeout_ms=2_000, leaves_after=leaves_after
            )


def lost_events(
    emulator: EmulatorProcess, members: list[RetryingMember], checked: dict[str, int]
) -> list[Acknowledgement]:
    """The events that were acknowledged since the last check and are not stored; counts the checked ones by member."""
    found = []
    for group in GROUPS:
        events = emulator.events(group)
        for member in [each for each in members if each.group == group]:
            acknowledged = member.acknowledged[checked.get(member.name, 0) :]
            checked[member.name] = len(member.acknowledged)
            found += missing(acknowledged, events)
    return found


async def all_commit_beyond(members: list[RetryingMember], offsets: list[int]) -> None:
    await wait_until(lambda: all(x.committed > n for x, n in zip(members, offsets, strict=True)), "the next commits")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [2, 100])
async def test_every_acknowledged_event_survives_and_the_clients_continue(serve: Serve, rounds: int) -> None:
    emulator = serve("--topic", "orders:8", "--set", "group.initial.rebalance.delay.ms=0", "--log-level", "error")
    rng, checked = random.Random(rounds), dict[str, int]()
    members = list(new_members(emulator.address))
    async with running(*members):
        await wait_until(lambda: all(each.committed for each in members), "the first commits")
        for number in range(rounds):
            await asyncio.sleep(rng.uniform(0.05, 0.6))
            before = [each.committed for each in members]
            emulator.kill()
            await asyncio.to_thread(emulator.start)
            assert lost_events(emulator, members, checked) == [], f"after kill {number + 1}"
            await all_commit_beyond(members, before)
        assert memory_mb(emulator) < 200
    assert emulator.terminate() == 0
    assert lost_events(emulator, members, checked) == []
    verified = await asyncio.to_thread(run_regroup, "verify", emulator.store, timeout_s=120)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "Traceback" not in emulator.log


def test_an_acknowledged_event_that_is_not_stored_is_found() -> None:
    acknowledged = Acknowledgement("offsets-committed", {"offset": (3, 8)})
    stored = {"type": "offsets-committed", "offsets": {"orders": {"3": {"offset": 8}}}}
    other = {"type": "offsets-committed", "offsets": {"orders": {"3": {"offset": 7}}}}
    assert list(missing([acknowledged], [other])) == [acknowledged]
    assert list(missing([acknowledged], [other, stored])) == []
