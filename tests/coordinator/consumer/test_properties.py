"""Properties of groups of the consumer protocol that hold for every sequence of requests."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar, get_args
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import invariants
from regroup.coordinator.consumer.events import AnyConsumerEvent
from regroup.coordinator.consumer_group import ConsumerMember, ReconciliationState, ResolvedRegex
from regroup.coordinator.evolve import fold
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import violations_of_group, violations_since
from regroup.coordinator.serialization import decode_event, decode_snapshot, encode_event, encode_snapshot
from regroup.protocol.codec.codec import decode, encode
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, Named, image
from tests.coordinator.group_driver import GROUP_ID, SentRequest
from tests.coordinator.group_harness import behaviour

Value = TypeVar("Value")
Choice: TypeAlias = tuple[int, int, int, int]
SMALL_NUMBER = st.integers(0, 63)

MEMBERS = ("m1", "m2", "m3", "m4")
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"subscribed_topics": ("foo",)},
    {"subscribed_topics": ("foo", "bar")},
    {"subscribed_topics": ("bar", "new")},
    {"subscribed_topics": ()},
    {"subscribed_topics": None, "subscribed_regex": "fo.*"},
    {"subscribed_topics": ("bar",), "subscribed_regex": ""},
    {"subscribed_topics": None, "subscribed_regex": "b.*"},
)
EXISTING = ({"foo": 6, "bar": 3}, {"foo": 8, "bar": 3, "new": 2}, {"foo": 8}, {"bar": 1, "new": 1})
ADVANCES_MS = (1, 400, 1_000, 5_000, 20_000, 50_000)


def random_choices(seed: int, length: int) -> list[Choice]:
    """The same choices for the same seed, in every process."""
    random = Random(seed)
    return [
        (random.randrange(64), random.randrange(64), random.randrange(64), random.randrange(64)) for _ in range(length)
    ]


LONG_SEQUENCES = st.builds(random_choices, st.integers(0, 2**32), st.just(120))
for_every_sequence = given(st.lists(st.tuples(*[SMALL_NUMBER] * 4), max_size=30) | LONG_SEQUENCES)
"""Short sequences can be shrunk; long ones reach more states."""


def pick(possibilities: Sequence[Value], number: int) -> Value:
    return possibilities[number % len(possibilities)]


class Client:
    """What one member has learnt from its responses."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owned: Named = {}
        self.previous: tuple[int, Named] = (0, {})


class RandomGroup(ConsumerHarness):
    """Members that heartbeat, lose responses, revoke at some time, leave and return; topics that change.

    The harness checks the invariants after every command and event.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"group_consumer_assignment_interval_ms": 1_000, "group_consumer_max_size": 3, **settings})
        self.clients = {each: Client() for each in MEMBERS}
        self.largest: dict[str, int] = {"foo": 6, "bar": 3}
        self.on_request: Callable[[Group, SentRequest], None] = lambda before, request: None

    def handle(self, command: c.Command, on_response: Callable[[Any], None] = lambda response: None) -> SentRequest:
        before = self.group
        request = super().handle(command, on_response)
        self.on_request(before, request)
        return request

    def instance_of(self, member_id: str) -> str | None:
        return {"m3": "i3", "m4": "i3"}.get(member_id)

    def run(self, choice: Choice) -> None:
        pick(ACTIONS, choice[0])(self, pick(MEMBERS, choice[1]), choice[2], choice[3])

    def join_group(self, member_id: str, a: int, b: int) -> None:
        answer = self.join(
            member_id,
            **{
                **pick(SUBSCRIPTIONS, a),
                "instance_id": self.instance_of(member_id),
                "rebalance_timeout_ms": pick((60_000, 10_000, 0), b),
                "server_assignor": pick((None, None, "range", "uniform"), b),
            },
        )
        self.learn(member_id, answer.code, answer.epoch, answer.assignment or {}, b)

    def heartbeat(self, member_id: str, a: int, b: int) -> None:
        """With the member's epoch and what it owns, perhaps without a part that it has given up."""
        client = self.clients[member_id]
        if not client.epoch:
            self.join_group(member_id, a, b)
            return
        assigned = self.group.consumer.members.get(member_id) if self.group.consumer else None
        if a % 3 == 0 and assigned is not None:
            client.owned = {each: list(indexes) for each, indexes in self.known(assigned.assigned).items()}
        owned = None if a % 5 == 0 else client.owned
        fields = {"instance_id": self.instance_of(member_id)}
        answer = self.beat(member_id, client.epoch, owned=owned, **fields)
        self.learn(member_id, answer.code, answer.epoch, answer.assignment, b)

    def known(self, partitions: Any) -> Named:
        names = {each: topic.name for each, topic in self.topics.by_id.items()}
        return {names[each]: sorted(indexes) for each, indexes in partitions.items() if each in names}

    def learn(self, member_id: str, code: ErrorCode, epoch: int, assignment: Named | None, b: int) -> None:
        """A response is lost now and then; a member that is fenced begins again."""
        client = self.clients[member_id]
        if code is ErrorCode.NONE and b % 7:
            client.previous = client.epoch, client.owned
            client.epoch, client.owned = epoch, client.owned if assignment is None else assignment
        elif code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.clients[member_id] = Client()

    def change_subscription(self, member_id: str, a: int, b: int) -> None:
        client = self.clients[member_id]
        if client.epoch:
            answer = self.beat(
                member_id, client.epoch, instance_id=self.instance_of(member_id), **pick(SUBSCRIPTIONS, a)
            )
            self.learn(member_id, answer.code, answer.epoch, answer.assignment, b)

    def invent_epoch(self, member_id: str, a: int, b: int) -> None:
        epoch = pick((self.clients[member_id].epoch, self.clients[member_id].previous[0], 1, 99), a)
        owned = pick((None, {}, self.clients[member_id].previous[1], {"foo": [0, 1]}), b)
        if epoch:
            self.beat(member_id, epoch, owned=owned)

    def leave(self, member_id: str, a: int, b: int) -> None:
        instance_id = self.instance_of(member_id)
        epoch = -2 if instance_id and a % 2 else -1
        self.beat(member_id, epoch, instance_id=instance_id)
        self.clients[member_id] = Client()

    def leave_by_classic_request(self, member_id: str, a: int, b: int) -> None:
        if self.group.consumer is not None:
            self.leave_group(member_id)

    def change_topics(self, member_id: str, a: int, b: int) -> None:
        """Topics are created, deleted, and grow; a topic with the same id never has fewer partitions."""
        counts = pick(EXISTING, a)
        self.largest = {name: max(count, self.largest.get(name, 0)) for name, count in counts.items()} | {
            name: count for name, count in self.largest.items() if name not in counts
        }
        self.topics = image(self.topics.version + 1, **{name: self.largest[name] for name in counts})

    def resolve_regexes(self, member_id: str, a: int, b: int) -> None:
        found = {"fo.*": ("foo",), "b.*": ("bar",)}
        existing = {
            regex: tuple(each for each in names if each in self.topics.by_name) for regex, names in found.items()
        }
        self.resolve(**existing)

    def commit_offsets(self, member_id: str, a: int, b: int) -> None:
        offsets = (c.RequestedOffset("foo", a % 8, 1, topic_id="?"), c.RequestedOffset("bar", 0, b))
        self.handle(
            c.OffsetCommit(
                group_id=GROUP_ID,
                at_ms=self.now_ms,
                member_id=member_id,
                generation_id=self.clients[member_id].epoch or -1,
                offsets=offsets,
            )
        )

    def administrate(self, member_id: str, a: int, b: int) -> None:
        if a % 4 == 0:
            self.delete_group()
        elif a % 4 == 1:
            self.expire_offsets()
        elif a % 4 == 2:
            self.client("anna").send_join()
        elif self.group.exists:
            self.fail_over()

    def wait(self, member_id: str, a: int, b: int) -> None:
        self.advance(pick(ADVANCES_MS, a))


R = RandomGroup
ACTIONS: tuple[Callable[[RandomGroup, str, int, int], None], ...] = (
    R.join_group,
    *[R.heartbeat] * 8,
    R.change_subscription,
    R.invent_epoch,
    R.leave,
    R.leave_by_classic_request,
    R.change_topics,
    R.resolve_regexes,
    R.commit_offsets,
    R.administrate,
    R.wait,
    R.wait,
)


def run(choices: list[Choice], on_request: Callable[[Group, SentRequest], None] | None = None) -> RandomGroup:
    """Run the choices, and call `on_request` with the group before each request."""
    group = RandomGroup()
    if on_request:
        group.on_request = on_request
    for choice in choices:
        group.run(choice)
    return group


@for_every_sequence
def test_the_replay_of_the_events_is_the_live_group(choices: list[Choice]) -> None:
    group = run(choices)
    assert fold(Group(group_id=GROUP_ID), group.events) == group.group


@behaviour("cg.rec.two-owners-never")
@for_every_sequence
def test_no_partition_has_two_holders(choices: list[Choice]) -> None:
    """Apart from the invariants, which the harness checks, from what the members themselves have."""

    def check(before: Group, request: SentRequest) -> None:
        consumer = request.driver.group.consumer
        held = [each for member in consumer.members.values() for each in member.held()] if consumer else []
        assert len(held) == len(set(held))

    run(choices, check)


@for_every_sequence
def test_a_refused_heartbeat_changes_nothing(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        if type(request.command).__name__ == "ConsumerGroupHeartbeat" and request.response.error_code:
            assert request.driver.group == before

    run(choices, check)


def wrong_forms(before: Group, after: Group) -> Iterator[Group]:
    """The group after a request, each time with something else wrong: as if the request had changed nothing in one
    member, or too much in one field."""
    consumer = after.consumer
    if before.consumer is None or consumer is None:
        return
    for name, members in (
        *((name, {**consumer.members, name: former}) for name, former in before.consumer.members.items()),
        *((name, {each: kept for each, kept in consumer.members.items() if each != name}) for name in consumer.members),
    ):
        yield replace(after, consumer=replace(consumer, members=members))
        yield replace(after, consumer=replace(consumer, members=members, static_members=dict(consumer.static_members)))
        targets = {each: share for each, share in consumer.targets.items() if each != name}
        yield replace(after, consumer=replace(consumer, members=members, targets=targets))
    for name, member in consumer.members.items():
        others = [each for each in consumer.members.values() if each is not member]
        greedy = replace(member, assigned=others[0].assigned if others else {}, pending_revocation={})
        yield replace(after, consumer=replace(consumer, members={**consumer.members, name: greedy}))
        taken = {topic_id: dict.fromkeys(indexes, name) for topic_id, indexes in greedy.assigned.items()}
        holders = {each: {**indexes, **taken.get(each, {})} for each, indexes in consumer.holders.items()}
        yield replace(after, consumer=replace(consumer, members={**consumer.members, name: greedy}, holders=holders))
        twice = replace(member, pending_revocation=member.assigned)
        yield replace(after, consumer=replace(consumer, members={**consumer.members, name: twice}))
        renamed = replace(member, profile=replace(member.profile, instance_id="i9"))
        yield replace(after, consumer=replace(consumer, members={**consumer.members, name: renamed}))
        yield replace(after, consumer=replace(consumer, targets={**consumer.targets, name: {"t": (0,)}, "gone": {}}))
    for topic_id, holders in consumer.holders.items():
        for index in holders:
            for wrong in ({index: name} for name in (*consumer.members, "gone")):
                yield replace(
                    after, consumer=replace(consumer, holders={**consumer.holders, topic_id: holders | wrong})
                )
            left = {each: holder for each, holder in holders.items() if each != index}
            yield replace(after, consumer=replace(consumer, holders={**consumer.holders, topic_id: left}))
    for step in (-1, 1):
        yield replace(after, consumer=replace(consumer, behind_target=consumer.behind_target + step))
        yield replace(after, consumer=replace(consumer, assignment_epoch=consumer.assignment_epoch + step))
    yield replace(after, consumer=replace(consumer, subscriptions={**consumer.subscriptions, "foo": 4}))
    yield replace(after, consumer=replace(consumer, assignor_votes={**consumer.assignor_votes, "range": 4}))
    yield replace(after, consumer=replace(consumer, regex_subscriptions={}))
    yield replace(after, consumer=replace(consumer, static_members={}))
    yield replace(after, consumer=replace(consumer, resolved_regexes={"x": ResolvedRegex(topics=(), resolved_at_ms=0)}))


@for_every_sequence
def test_changed_members_alone_show_the_violations_of_a_group_that_was_sound_before(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        after = request.driver.group
        with patch.object(invariants, "MANY_MEMBERS", 0):  # small groups would be checked in full
            assert violations_since(before, after) == []
            if request.events:
                for wrong in wrong_forms(before, after):
                    assert violations_since(before, wrong) == violations_of_group(wrong)

    run(choices, check)


def life_of(member: ConsumerMember) -> tuple[str, str | None]:
    return member.member_id, member.instance_id


@for_every_sequence
def test_epochs_never_run_back_in_one_life_of_a_member(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        after = request.driver.group
        if before.consumer is None or after.consumer is None:
            return
        assert after.consumer.group_epoch >= before.consumer.group_epoch
        for member_id, member in after.consumer.members.items():
            earlier = before.consumer.members.get(member_id)
            if earlier and not earlier.is_away and not member.is_away and life_of(earlier) == life_of(member):
                assert member.epoch >= earlier.epoch

    run(choices, check)


@for_every_sequence
def test_every_event_and_every_group_is_the_same_after_encoding_and_decoding(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        for event_number, event in enumerate(request.events, before.event_number + 1):
            assert decode_event(encode_event(GROUP_ID, event_number, 1, event, None).stored_at(1)) == event
        after = request.driver.group
        assert decode_snapshot(encode_snapshot(after, 1, 1)) == after

    run(choices, check)


@for_every_sequence
def test_every_heartbeat_response_can_be_encoded_in_every_version(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        if type(request.command).__name__ == "ConsumerGroupHeartbeat":
            for version in (0, 1):
                message = type(request.response)
                assert decode(message, version, encode(request.response, version)) == request.response

    run(choices, check)


@for_every_sequence
def test_a_group_converges_once_its_members_only_heartbeat_and_revoke(choices: list[Choice]) -> None:
    """Every member reports what it is assigned: within a few rounds all have reached the target.

    Not while two assignors have as many votes: as in Kafka, some heartbeats then bump the group epoch each time.
    """
    group = run(choices)
    if group.group.consumer is None:
        return
    for member in list(group.consumer.members.values()):
        if member.profile.server_assignor == "range":
            group.beat(member.member_id, -1, instance_id=member.instance_id)
    for _ in range(8):
        for member in list(group.consumer.members.values()):
            if member.is_away:
                group.beat(member.member_id, -1, instance_id=member.instance_id)
                continue
            owned = {
                group.topics.by_id[each].name: list(indexes)
                for each, indexes in member.assigned.items()
                if each in group.topics.by_id
            }
            answer = group.beat(member.member_id, member.epoch, owned=owned, instance_id=member.instance_id)
            assert answer.code is ErrorCode.NONE
        group.advance(1_000)
    assert group.state_name in ("Stable", "Empty")
    for member in group.consumer.members.values():
        assert member.state is ReconciliationState.STABLE


def digest(seed: int) -> str:
    """A digest of the records of a random history."""
    hashed = hashlib.sha256()
    for event_number, event in enumerate(run(random_choices(seed, 300)).events, 1):
        hashed.update(msgspec.json.encode(encode_event(GROUP_ID, event_number, 1, event, None)))
    return hashed.hexdigest()


def test_random_requests_cause_every_type_of_event_often() -> None:
    counts: Counter[str] = Counter()
    for seed in range(30):
        counts.update(type(event).__name__ for event in run(random_choices(seed, 300)).events)
    rare = {each.__name__ for each in get_args(AnyConsumerEvent) if counts[each.__name__] < 5}
    assert not rare


def test_the_same_choices_give_the_same_history_in_every_process() -> None:
    script = "import sys; from tests.coordinator.consumer.test_properties import digest; print(digest(7))"
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest(7)
