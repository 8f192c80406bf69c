"""Long work in turns: portions, fairness, errors, cancellation."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from regroup.server.limits import STEPS_PER_TURN
from regroup.server.net.turns import TurnQueue


def work(portions: int, done: list[str], name: str = "work") -> Iterator[int]:
    for _ in range(portions):
        done.append(name)
        yield STEPS_PER_TURN


def no_error(error: Exception) -> Any:
    pytest.fail(str(error))


async def test_short_work_is_done_at_once() -> None:
    done: list[str] = []

    def short() -> Iterator[int]:
        for _ in range(STEPS_PER_TURN - 1):
            yield 1
        done.append("end")

    assert TurnQueue().run(short(), no_error).is_done
    assert done == ["end"]


async def test_long_work_lets_others_have_their_turn_between_its_portions() -> None:
    done: list[str] = []
    asyncio.get_running_loop().call_soon(done.append, "another")
    TurnQueue().run(work(3, done), no_error)
    assert done == ["work"]
    await asyncio.sleep(0)
    assert done[:2] == ["work", "another"]


async def test_one_portion_of_all_long_work_is_done_in_a_turn() -> None:
    queue, done = TurnQueue(), list[str]()
    for name in "abc":
        queue.run(work(3, done, name), no_error)
    begun = len(done)
    for turn in range(1, 7):
        await asyncio.sleep(0)
        assert len(done) == begun + turn
    assert done == list("abc" * 3)


async def test_an_error_goes_to_whoever_started_the_work() -> None:
    errors: list[Exception] = []

    def broken() -> Iterator[int]:
        yield STEPS_PER_TURN
        raise ValueError("broken")

    queued = TurnQueue().run(broken(), errors.append)
    assert not errors
    await asyncio.sleep(0)
    assert [str(error) for error in errors] == ["broken"]
    assert queued.is_done


async def test_cancelled_work_goes_no_further() -> None:
    done: list[str] = []
    queued = TurnQueue().run(work(3, done), no_error)
    queued.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == ["work"]
    assert queued.is_done
