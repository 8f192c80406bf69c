"""`kill -9` at random moments while members come and go: whatever was acknowledged is there when it is back."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.clients.emulator import EmulatorProcess, regroup
from tests.clients.processes import Serve
from tests.fire.attacks import memory_mb
from tests.fire.member import Acknowledged, Member, living, missing, until

GROUPS = ("payments", "shipping")


def churn(address: str) -> Iterator[Member]:
    """Per group one member who stays, and two who leave and come back under new names."""
    for group in GROUPS:
        for partition, leaves_after in enumerate((None, 3, 7)):
            name = f"{group}-{partition}"
            yield Member(
                name, address, group=group, partition=partition, session_timeout_ms=2_000, leaves_after=leaves_after
            )


def lost(emulator: EmulatorProcess, members: list[Member], checked: dict[str, int]) -> list[Acknowledged]:
    """What was promised since the last look, and is not in the store."""
    found = []
    for group in GROUPS:
        events = emulator.events(group)
        for member in [each for each in members if each.group == group]:
            promised = member.acknowledged[checked.get(member.name, 0) :]
            checked[member.name] = len(member.acknowledged)
            found += missing(promised, events)
    return found


async def all_commit_beyond(members: list[Member], offsets: list[int]) -> None:
    await until(lambda: all(x.committed > n for x, n in zip(members, offsets, strict=True)), "everybody's next commit")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.slow)])
async def test_every_acknowledged_event_survives_and_the_clients_carry_on(serve: Serve, rounds: int) -> None:
    emulator = serve("--topic", "orders:8", "--set", "group.initial.rebalance.delay.ms=0", "--log-level", "error")
    chance, checked = random.Random(rounds), dict[str, int]()
    members = list(churn(emulator.address))
    async with living(*members):
        await until(lambda: all(each.committed for each in members), "everybody's first commit")
        for number in range(rounds):
            await asyncio.sleep(chance.uniform(0.05, 0.6))
            before = [each.committed for each in members]
            emulator.kill()
            await asyncio.to_thread(emulator.start)
            assert lost(emulator, members, checked) == [], f"after kill {number + 1}"
            await all_commit_beyond(members, before)
        assert memory_mb(emulator) < 200
    assert emulator.terminate() == 0
    assert lost(emulator, members, checked) == []
    verified = await asyncio.to_thread(regroup, "verify", emulator.store, seconds=120)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "Traceback" not in emulator.log


def test_a_promise_that_was_not_kept_is_found() -> None:
    promised = Acknowledged("offsets-committed", {"offset": (3, 8)})
    kept = {"type": "offsets-committed", "offsets": {"orders": {"3": {"offset": 8}}}}
    other = {"type": "offsets-committed", "offsets": {"orders": {"3": {"offset": 7}}}}
    assert list(missing([promised], [other])) == [promised]
    assert list(missing([promised], [other, kept])) == []
