"""Commands to one group in random order. Each is chosen by a few small numbers, so that a choice can be shrunk.

Hypothesis draws the numbers in the property tests. Where several processes must make the same choices, a seeded
`Random` draws them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, TypeVar

from regroup.coordinator import commands as c
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, Member
from regroup.coordinator.runtime.deadlines import next_deadline
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode
from tests.coordinator.join_requests import join_request

Value = TypeVar("Value")

SETTINGS = CoordinatorSettings(group_max_size=4)
SUPPORTED_PROTOCOLS = (
    tuple(SupportedProtocol(name, encode_subscription(Subscription(3, ("foo",)))) for name in ("range", "sticky")),
    tuple(
        SupportedProtocol(name, encode_subscription(Subscription(3, ("foo", "bar")))) for name in ("sticky", "range")
    ),
    (SupportedProtocol("range", b"no subscription"),),
    tuple(SupportedProtocol(name, b"twice") for name in ("range", "range", "sticky")),
    (SupportedProtocol("sticky", b""),),
    (),
)
INSTANCE_IDS = (None, None, None, "instance-1", "instance-2")
ADVANCES_MS = (0, 1, 2_999, 3_000, 10_000, 60_000, 300_000, 8 * 86_400_000)
LOG_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE)


@dataclass(frozen=True)
class CommandChoice:
    """An action, the member that it is about, and three more choices. Each number counts modulo the possibilities."""

    action: int
    member: int = 0
    a: int = 0
    b: int = 0
    c: int = 0


def pick(possibilities: Sequence[Value], number: int) -> Value:
    return possibilities[number % len(possibilities)]


class RandomCommandRunner:
    """Runs choices against one group and keeps its events."""

    def __init__(self, settings: CoordinatorSettings = SETTINGS) -> None:
        self.settings = settings
        self.now_ms = 1_000_000
        self.group = Group(group_id="g")
        self.last_seen_ms: dict[str, int] = {}
        self.log_delays_appends = False
        self.events: list[Event] = []
        self.on_decision: Callable[[c.Command, Group, Decision], None] = lambda command, before, decision: None
        self._ids = count(1)

    def run(self, choice: CommandChoice) -> None:
        pick(ACTIONS, choice.action)(self, choice)

    def handle(self, make_command: Callable[..., c.Command], /, **fields: Any) -> None:
        """Handle one command as the asyncio coordinator would."""
        command = make_command(group_id="g", at_ms=self.now_ms, delays_append=self.log_delays_appends, **fields)
        before = self.group
        decision = decide(self.settings, before, command)
        self.group = decision.group
        self.events += decision.events
        self.last_seen_ms.update(dict.fromkeys(decision.touched_sessions, self.now_ms))
        self.last_seen_ms = {each: at_ms for each, at_ms in self.last_seen_ms.items() if each in self.group.member_ids}
        self.on_decision(command, before, decision)

    # What a small number selects

    def member_id(self, number: int) -> str:
        return pick(["", "unknown", *self.group.members, *self.group.pending_join_members], number)

    def present_member_id(self, number: int) -> str:
        """A member if there is one, so that many requests succeed."""
        return pick(list(self.group.members) or ["unknown"], number)

    def generation_id(self, number: int) -> int:
        return pick([self.group.generation_id] * 4 + [self.group.generation_id - 1, -1], number)

    def instance_id(self, member_id: str, number: int) -> str | None:
        """The member's own instance id in most cases."""
        known = self.group.members.get(member_id)
        return pick([known.instance_id if known else None] * 3 + [None, "instance-1"], number)

    def supported_protocols(self, known: Member | None, number: int) -> tuple[SupportedProtocol, ...]:
        """The member's own if the number is odd."""
        return known.profile.supported_protocols if known and number % 2 else pick(SUPPORTED_PROTOCOLS, number)

    # Actions

    def join(self, choice: CommandChoice) -> None:
        member_id = self.member_id(choice.member)
        instance_id = pick(INSTANCE_IDS, choice.b) if member_id == "" else self.instance_id(member_id, choice.b)
        self.handle(
            join_request,
            member_id=member_id,
            new_member_id=f"m{next(self._ids)}",
            instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=pick([10_000, 10_000, 6_000, 400_000, 1], choice.c),
            rebalance_timeout_ms=pick([60_000, 30_000, 0, 700_000], choice.c),
            protocol_type=pick(["consumer"] * 5 + ["connect", ""], choice.c),
            supported_protocols=pick(SUPPORTED_PROTOCOLS, choice.a),
            supports_member_id_required=choice.b % 4 != 0,
            supports_skip_assignment=choice.b % 3 != 0,
        )

    def rejoin(self, choice: CommandChoice) -> None:
        member_id = self.present_member_id(choice.member)
        known = self.group.members.get(member_id)
        self.handle(
            join_request,
            member_id=member_id,
            new_member_id="unused",
            instance_id=known.instance_id if known else None,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type=self.group.protocol_type,
            supported_protocols=self.supported_protocols(known, choice.a),
        )

    def rejoin_all(self, choice: CommandChoice) -> None:
        for number in range(len(self.group.members)):
            self.rejoin(CommandChoice(0, number, 1))

    def restart_static_member(self, choice: CommandChoice) -> None:
        instance_id = pick(list(self.group.static_members) or ["instance-1"], choice.member)
        known = self.group.members.get(self.group.static_members.get(instance_id, ""))
        self.handle(
            join_request,
            member_id="",
            new_member_id=f"m{next(self._ids)}",
            instance_id=instance_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            supported_protocols=self.supported_protocols(known, choice.a),
            supports_skip_assignment=choice.b % 2 == 0,
        )

    def reach_stable(self, choice: CommandChoice) -> None:
        """Every member rejoins and syncs, as Kafka's consumer does."""
        self.rejoin_all(choice)
        self.advance(CommandChoice(0, a=3))
        self.rejoin_all(choice)
        self.sync_all(choice)

    def sync(self, choice: CommandChoice) -> None:
        by_number = self.present_member_id if choice.a % 4 else self.member_id
        member_id = by_number(choice.member)
        assigned = [*self.group.members, "unknown"][choice.b % 3 :]
        self.handle(
            c.SyncGroup,
            member_id=member_id,
            generation_id=self.generation_id(choice.a),
            group_instance_id=self.instance_id(member_id, choice.c),
            protocol_type=pick([None, "consumer", "consumer", "connect"], choice.b),
            protocol_name=pick([None, self.group.protocol_name], choice.b),
            assignments={each: each.encode() for each in assigned},
        )

    def sync_all(self, choice: CommandChoice) -> None:
        for member in list(self.group.members.values()):
            self.handle(
                c.SyncGroup,
                member_id=member.member_id,
                generation_id=self.group.generation_id,
                group_instance_id=member.instance_id,
            )

    def heartbeat(self, choice: CommandChoice) -> None:
        member_id = self.member_id(choice.member)
        self.handle(
            c.Heartbeat,
            member_id=member_id,
            generation_id=self.generation_id(choice.a),
            group_instance_id=self.instance_id(member_id, choice.b),
        )

    def leave(self, choice: CommandChoice) -> None:
        member_id = self.member_id(choice.member)
        leaving = [c.LeavingMember(member_id, self.instance_id(member_id, choice.a))]
        if choice.b % 3 == 0:
            leaving.append(c.LeavingMember("", pick(INSTANCE_IDS, choice.c)))
        self.handle(c.LeaveGroup, members=tuple(leaving))

    def commit_offsets(self, choice: CommandChoice) -> None:
        member_id = self.member_id(choice.member)
        self.handle(
            c.OffsetCommit,
            member_id=member_id,
            generation_id=self.generation_id(choice.a),
            group_instance_id=self.instance_id(member_id, choice.b),
            offsets=(
                c.RequestedOffset(pick(["foo", "bar"], choice.b), choice.c % 2, choice.c),
                c.RequestedOffset("foo", 2, 1, metadata="x" * pick([1, 5_000], choice.c)),
            ),
            retention_ms=pick([None, None, 1_000], choice.c),
        )

    def fetch_offsets(self, choice: CommandChoice) -> None:
        partitions = pick([None, {"foo": (0, 1), "bar": (0,)}, {}], choice.a)
        self.handle(c.OffsetFetch, partitions=partitions, require_stable=choice.b % 2 == 0)

    def commit_in_transaction(self, choice: CommandChoice) -> None:
        member_id = pick(["", self.present_member_id(choice.member)], choice.a)
        self.handle(
            c.TxnOffsetCommit,
            producer_id=choice.b % 3,
            member_id=member_id,
            generation_id=self.generation_id(choice.a) if member_id else -1,
            group_instance_id=self.instance_id(member_id, choice.c),
            offsets=(c.RequestedOffset(pick(["foo", "bar"], choice.b), choice.c % 2, choice.c),),
        )

    def end_transaction(self, choice: CommandChoice) -> None:
        self.handle(c.EndTransaction, producer_id=choice.b % 3, committed=choice.c % 2 == 0)

    def delete_offsets(self, choice: CommandChoice) -> None:
        self.handle(c.OffsetDelete, partitions=pick([{"foo": (0, 1, 2)}, {"bar": (0,), "foo": (9,)}, {}], choice.a))

    def describe_or_delete_group(self, choice: CommandChoice) -> None:
        self.handle(pick([c.DescribeGroup, c.DeleteGroup], choice.a))

    def advance(self, choice: CommandChoice) -> None:
        end_ms = self.now_ms + pick(ADVANCES_MS, choice.a)
        for _ in range(100):
            deadline = next_deadline(self.group, self.last_seen_ms)
            if deadline is None or deadline.at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline.at_ms)
            self.handle(
                c.DeadlinePassed, kind=deadline.kind, member_id=deadline.member_id, last_seen_ms=deadline.last_seen_ms
            )
        self.now_ms = end_ms

    def expire_or_delete_topic_offsets(self, choice: CommandChoice) -> None:
        if choice.a % 3:
            self.handle(c.ExpireOffsets)
        else:
            self.handle(c.DeleteTopicOffsets, topic=pick(["foo", "bar"], choice.b))

    def fail_over(self, choice: CommandChoice) -> None:
        if choice.a % 3 == 0:
            self.handle(c.LoadGroup)

    def force(self, choice: CommandChoice) -> None:
        """A test forces a change."""
        member_id = self.member_id(choice.member)
        pick(
            [
                partial(self.handle, c.EndSession, member_id=member_id),
                partial(self.handle, c.StartRebalance),
                partial(self.handle, c.CompleteJoinPhase),
                partial(self.handle, c.RaiseGeneration),
                partial(self.handle, c.ForgetOffsets, partitions=pick([None, {"foo": (0, 7)}, {}], choice.b)),
            ],
            choice.a,
        )()

    def set_log_delay(self, choice: CommandChoice) -> None:
        self.log_delays_appends = choice.a % 3 == 0

    def complete_or_fail_log_append(self, choice: CommandChoice) -> None:
        """The log commits or loses its oldest pending record."""
        append_number = next(iter(self.group.pending_appends), 1)
        if choice.a % 2:
            self.handle(c.CompleteAppend, append_number=append_number)
        else:
            self.handle(c.FailAppend, append_number=append_number, error_code=pick(LOG_ERRORS, choice.b))


R = RandomCommandRunner
ACTIONS: tuple[Callable[[RandomCommandRunner, CommandChoice], None], ...] = (
    R.join,
    R.rejoin,
    R.restart_static_member,
    R.reach_stable,
    R.sync,
    R.sync_all,
    R.heartbeat,
    R.leave,
    R.commit_offsets,
    R.fetch_offsets,
    R.commit_in_transaction,
    R.end_transaction,
    R.delete_offsets,
    R.describe_or_delete_group,
    R.advance,
    R.expire_or_delete_topic_offsets,
    R.fail_over,
    R.force,
    R.set_log_delay,
    R.complete_or_fail_log_append,
    R.complete_or_fail_log_append,
)


def random_choices(seed: int, length: int) -> list[CommandChoice]:
    """The same choices for the same seed, in every process."""
    random = Random(seed)
    return [CommandChoice(*(random.randrange(64) for _ in range(5))) for _ in range(length)]
