"""A coordinator under a judge's eyes, on a virtual clock, and short words for what consumers send it.

court = Court()
await court.stable("anna", "ben")
assert court.verdict.sentences == ()
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, Protocol, State
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.settings import Settings
from regroup.lab.checker.judge import Judge, Verdict
from regroup.lab.checker.observed_coordinator import WitnessedCoordinator
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord
from tests.coordinator.desk import SlowStore
from tests.virtual_time import virtual_now

GROUP = "payments"
SUBSCRIPTION = encode_subscription(Subscription(3, ("orders",)))


class TappedStore(SlowStore):
    """Tells the judge of every row."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._judge = judge

    async def append(self, records: Sequence[NewRecord]) -> int:
        position = await super().append(records)
        self._judge.stored(records, position)
        return position

    def loses_the_last_row(self) -> None:
        """As a disk does that said it had what it never had."""
        gone = self._records.pop()
        head = self._books.heads[gone.group]
        self._books.heads[gone.group] = replace(head, number=head.number - 1)
        self._books.last_position -= 1


class Court:
    """`answers` gathers what came back, by the number of the request."""

    def __init__(self, kafka_log: KafkaLog | None = None, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.now = virtual_now()
        self.judge = Judge(self.settings, now_ms=lambda: round(asyncio.get_running_loop().time() * 1000))
        self.store = TappedStore(self.judge)
        self.journal = Journal(self.store)
        self._kafka_log = kafka_log
        self.coordinator = self.another_coordinator()

    def another_coordinator(self) -> WitnessedCoordinator:
        return self.judge.make_coordinator(
            self.journal, settings=self.settings, now=self.now, kafka_log=self._kafka_log
        )

    @property
    def group(self) -> Group:
        return self.coordinator.group(GROUP)

    @property
    def verdict(self) -> Verdict:
        """What the judge would say now."""
        return self.judge.finish()

    def broken(self) -> set[str]:
        return set(self.verdict.sentences)

    # What is asked

    def asks(self, command: c.Command) -> list[Any]:
        """Hand a command in; the answers, one or none, come into the list."""
        answers: list[Any] = []
        self.coordinator.submit(command, answers.append)
        return answers

    def join(self, name: str = "", **fields: Any) -> list[Any]:
        return self.asks(self.joining(name, **fields))

    def joining(self, name: str = "", **fields: Any) -> c.JoinGroup:
        usual: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (Protocol("range", SUBSCRIPTION),),
            "can_be_asked_to_return": False,
            "new_member_id": name,
            "group_id": GROUP,
            "at_ms": self.now(),
        }
        return c.JoinGroup(**usual | fields)

    def sync(self, name: str, generation: int | None = None, **shares: bytes) -> list[Any]:
        number = self.group.generation if generation is None else generation
        return self.asks(
            c.SyncGroup(group_id=GROUP, at_ms=self.now(), member_id=name, generation_id=number, assignment=shares)
        )

    def beat(self, name: str, generation: int | None = None) -> list[Any]:
        number = self.group.generation if generation is None else generation
        return self.asks(c.Heartbeat(group_id=GROUP, at_ms=self.now(), member_id=name, generation_id=number))

    def leave(self, *names: str) -> list[Any]:
        leaving = tuple(c.Leaving(name) for name in names)
        return self.asks(c.LeaveGroup(group_id=GROUP, at_ms=self.now(), members=leaving))

    def commit(self, offset: int, partition: int = 0, **fields: Any) -> list[Any]:
        offsets = (c.OffsetToCommit("orders", partition, offset),)
        return self.asks(c.CommitOffsets(group_id=GROUP, at_ms=self.now(), offsets=offsets, **fields))

    def commit_as(self, name: str, offset: int, generation: int | None = None) -> list[Any]:
        number = self.group.generation if generation is None else generation
        return self.commit(offset, member_id=name, generation_id=number)

    # How stories begin

    async def starts(self) -> None:
        await self.coordinator.start()

    async def joined(self, *names: str) -> None:
        """Everybody joins within the initial delay, and the first leads; nobody has sent SyncGroup yet."""
        if not self.coordinator.is_ready:
            await self.starts()
        for name in names:
            self.join(name)
        await asyncio.sleep(7)
        assert self.group.state is State.COMPLETING

    async def stable(self, *names: str) -> None:
        """Each has the partition of its place in the row."""
        await self.joined(*names)
        shares = {name: share(number) for number, name in enumerate(names)}
        for name in reversed(names):
            self.sync(name, **(shares if name == names[0] else {}))
        await turns()
        assert self.group.state is State.STABLE


def share(*partitions: int) -> bytes:
    """These partitions of one topic."""
    return encode_assignment(Assignment(3, tuple(TopicPartition("orders", number) for number in partitions)))


async def turns(count: int = 10) -> None:
    """Let everybody do what can be done without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)
