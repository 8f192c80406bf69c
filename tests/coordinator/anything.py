"""Anything that may be asked of a group, in any order: moves made of small numbers, and who plays them.

Hypothesis draws the numbers in the property tests; a seeded `Random` draws them where another process shall make the
same choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, TypeVar

from regroup.coordinator import commands as c
from regroup.coordinator.classic.deadlines import next_deadline
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision, Place
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, Protocol
from regroup.coordinator.settings import Settings
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode

Value = TypeVar("Value")

SETTINGS = Settings(group_max_size=4)
OFFERS = (
    tuple(Protocol(name, encode_subscription(Subscription(3, ("foo",)))) for name in ("range", "sticky")),
    tuple(Protocol(name, encode_subscription(Subscription(3, ("foo", "bar")))) for name in ("sticky", "range")),
    (Protocol("range", b"no subscription"),),
    (Protocol("sticky", b""),),
    (),
)
INSTANCES = (None, None, None, "till-1", "till-2")
WAITS_MS = (0, 1, 2_999, 3_000, 10_000, 60_000, 300_000, 8 * 86_400_000)


@dataclass(frozen=True)
class Move:
    """What is done, by whom, and three small choices more; a number that is too large counts from the start again."""

    what: int
    who: int = 0
    a: int = 0
    b: int = 0
    c: int = 0


def of(choices: Sequence[Value], number: int) -> Value:
    return choices[number % len(choices)]


class Player:
    """Plays moves against one group, keeps the places where answers wait, and remembers what happened."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.now_ms = 1_000_000
        self.group = Group(name="g")
        self.heard: dict[str, int] = {}
        self.log_holds_back = False
        self.parked: dict[Place, c.Command] = {}
        self.history: list[Event] = []
        self.watch: Callable[[c.Command, Group, Decision], None] = lambda command, before, decision: None
        self._ids = count(1)

    def play(self, move: Move) -> None:
        MOVES[move.what % len(MOVES)](self, move)

    def tell(self, kind: type[c.Command], /, **fields: Any) -> None:
        """Deal with one command as the asyncio coordinator would."""
        command = kind(group_id="g", at_ms=self.now_ms, log_holds_back=self.log_holds_back, **fields)
        before = self.group
        decision = decide(self.settings, before, command)
        self.group = decision.group
        self.history += decision.events
        self.heard.update(dict.fromkeys(decision.heard, self.now_ms))
        self.heard = {name: at_ms for name, at_ms in self.heard.items() if name in self.group.members}
        if kind is c.TakeOver:
            self.parked.clear()
        if decision.parked:
            self.parked[decision.parked] = command
        self.watch(command, before, decision)
        for reply in decision.replies:
            del self.parked[reply.place]

    # Who and what a small number stands for

    def member(self, number: int) -> str:
        return of(["", "stranger", *self.group.members, *self.group.reserved_ids], number)

    def insider(self, number: int) -> str:
        """A member wherever there is one, so that much goes well."""
        return of(list(self.group.members) or ["stranger"], number)

    def generation(self, number: int) -> int:
        return of([self.group.generation] * 4 + [self.group.generation - 1, -1], number)

    def instance(self, member: str, number: int) -> str | None:
        """Mostly the member's own."""
        known = self.group.members.get(member)
        return of([known.instance_id if known else None] * 3 + [None, "till-1"], number)

    # Moves

    def joins(self, move: Move) -> None:
        member = self.member(move.who)
        self.tell(
            c.JoinGroup,
            member_id=member,
            new_member_id=f"m{next(self._ids)}",
            group_instance_id=of(INSTANCES, move.b) if member == "" else self.instance(member, move.b),
            client_id="c",
            client_host="/h",
            session_timeout_ms=of([10_000, 10_000, 6_000, 400_000, 1], move.c),
            rebalance_timeout_ms=of([60_000, 30_000, 0, 700_000], move.c),
            protocol_type=of(["consumer"] * 5 + ["connect", ""], move.c),
            protocols=of(OFFERS, move.a),
            can_be_asked_to_return=move.b % 4 != 0,
            can_skip_assignment=move.b % 3 != 0,
        )

    def rejoins(self, move: Move) -> None:
        member = self.insider(move.who)
        known = self.group.members.get(member)
        self.tell(
            c.JoinGroup,
            member_id=member,
            new_member_id="unused",
            group_instance_id=known.instance_id if known else None,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type=self.group.protocol_type,
            protocols=known.protocols if known and move.a % 2 else of(OFFERS, move.a),
        )

    def everybody_rejoins(self, move: Move) -> None:
        for number in range(len(self.group.members)):
            self.rejoins(Move(0, number, 1))

    def restarts(self, move: Move) -> None:
        """A static member comes back as a new process."""
        instance = of(list(self.group.static_members) or ["till-1"], move.who)
        known = self.group.members.get(self.group.static_members.get(instance, ""))
        self.tell(
            c.JoinGroup,
            member_id="",
            new_member_id=f"m{next(self._ids)}",
            group_instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=known.protocols if known and move.a % 2 else of(OFFERS, move.a),
            can_skip_assignment=move.b % 2 == 0,
        )

    def settles(self, move: Move) -> None:
        """Everybody does what a good consumer does, until the group is Stable."""
        self.everybody_rejoins(move)
        self.time_passes(Move(0, a=3))
        self.everybody_rejoins(move)
        self.everybody_syncs(move)

    def syncs(self, move: Move) -> None:
        member = self.insider(move.who) if move.a % 4 else self.member(move.who)
        shares = {name: name.encode() for name in [*self.group.members, "ghost"][move.b % 3 :]}
        self.tell(
            c.SyncGroup,
            member_id=member,
            generation_id=self.generation(move.a),
            group_instance_id=self.instance(member, move.c),
            protocol_type=of([None, "consumer", "consumer", "connect"], move.b),
            protocol_name=of([None, self.group.protocol_name], move.b),
            assignment=shares,
        )

    def everybody_syncs(self, move: Move) -> None:
        for member in list(self.group.members.values()):
            self.tell(
                c.SyncGroup,
                member_id=member.member_id,
                generation_id=self.group.generation,
                group_instance_id=member.instance_id,
            )

    def beats(self, move: Move) -> None:
        member = self.member(move.who)
        self.tell(
            c.Heartbeat,
            member_id=member,
            generation_id=self.generation(move.a),
            group_instance_id=self.instance(member, move.b),
        )

    def leaves(self, move: Move) -> None:
        leaving = [c.Leaving(self.member(move.who), self.instance(self.member(move.who), move.a))]
        if move.b % 3 == 0:
            leaving.append(c.Leaving("", of(INSTANCES, move.c)))
        self.tell(c.LeaveGroup, members=tuple(leaving))

    def commits(self, move: Move) -> None:
        member = self.member(move.who)
        self.tell(
            c.CommitOffsets,
            member_id=member,
            generation_id=self.generation(move.a),
            group_instance_id=self.instance(member, move.b),
            offsets=(
                c.OffsetToCommit(of(["foo", "bar"], move.b), move.c % 2, move.c),
                c.OffsetToCommit("foo", 2, 1, metadata="x" * of([1, 5_000], move.c)),
            ),
            retention_ms=of([None, None, 1_000], move.c),
        )

    def fetches(self, move: Move) -> None:
        asked = of([None, {"foo": (0, 1), "bar": (0,)}, {}], move.a)
        self.tell(c.FetchOffsets, partitions=asked, require_stable=move.b % 2 == 0)

    def commits_in_a_transaction(self, move: Move) -> None:
        member = of(["", self.insider(move.who)], move.a)
        self.tell(
            c.CommitTransactionalOffsets,
            producer_id=move.b % 3,
            member_id=member,
            generation_id=self.generation(move.a) if member else -1,
            group_instance_id=self.instance(member, move.c),
            offsets=(c.OffsetToCommit(of(["foo", "bar"], move.b), move.c % 2, move.c),),
        )

    def ends_a_transaction(self, move: Move) -> None:
        self.tell(c.EndTransaction, producer_id=move.b % 3, committed=move.c % 2 == 0)

    def deletes_offsets(self, move: Move) -> None:
        self.tell(c.DeleteOffsets, partitions=of([{"foo": (0, 1, 2)}, {"bar": (0,), "foo": (9,)}, {}], move.a))

    def looks_or_deletes(self, move: Move) -> None:
        self.tell(of([c.DescribeGroup, c.DeleteGroup], move.a))

    def time_passes(self, move: Move) -> None:
        end_ms = self.now_ms + of(WAITS_MS, move.a)
        for _ in range(100):
            deadline = next_deadline(self.group, self.heard)
            if deadline is None or deadline.at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline.at_ms)
            self.tell(
                c.DeadlinePassed, kind=deadline.kind, member=deadline.member, last_heard_ms=deadline.last_heard_ms
            )
        self.now_ms = end_ms

    def is_cleaned_up(self, move: Move) -> None:
        if move.a % 3:
            self.tell(c.ForgetOldOffsets)
        else:
            self.tell(c.ForgetTopic, topic=of(["foo", "bar"], move.b))

    def fails_over(self, move: Move) -> None:
        if move.a % 3 == 0:
            self.tell(c.TakeOver)

    def the_log_is_slow_or_not(self, move: Move) -> None:
        self.log_holds_back = move.a % 3 == 0

    def the_log_settles(self, move: Move) -> None:
        """The oldest record that waits is committed, or lost."""
        append = next(iter(self.group.appends), 1)
        if move.a % 2:
            self.tell(c.CommitAppend, append=append)
        else:
            self.tell(c.RefuseAppend, append=append, code=of(LOG_ERRORS, move.b))


LOG_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE)

MOVES: tuple[Callable[[Player, Move], None], ...] = (
    Player.joins,
    Player.rejoins,
    Player.restarts,
    Player.settles,
    Player.syncs,
    Player.everybody_syncs,
    Player.beats,
    Player.leaves,
    Player.commits,
    Player.fetches,
    Player.commits_in_a_transaction,
    Player.ends_a_transaction,
    Player.deletes_offsets,
    Player.looks_or_deletes,
    Player.time_passes,
    Player.is_cleaned_up,
    Player.fails_over,
    Player.the_log_is_slow_or_not,
    Player.the_log_settles,
    Player.the_log_settles,
)


def moves_by_chance(seed: int, number: int) -> list[Move]:
    """The same moves wherever the same seed is used."""
    chance = Random(seed)
    return [Move(*(chance.randrange(64) for _ in range(5))) for _ in range(number)]
