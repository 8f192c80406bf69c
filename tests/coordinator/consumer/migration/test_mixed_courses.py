"""Properties of groups with members of both protocols, for every course of requests: they migrate back and forth."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.migration.events import AnyMigrationEvent, GroupDowngraded, GroupUpgraded
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.serialization import decode_event, decode_snapshot, encode_event, encode_snapshot
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.migration.migration_harness import assigned_by, assignment, subscription
from tests.coordinator.consumer.test_properties import SMALL_NUMBER, Choice, Client, RandomGroup, pick, random_choices
from tests.coordinator.group_driver import GROUP_ID, SentRequest
from tests.coordinator.simulated_client import SimulatedClient

CLASSIC_MEMBERS = ("c1", "c2", "c3")
TOPICS = (("foo",), ("foo", "bar"), ("bar",))
ASSIGNORS = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("range",))
for_every_course = given(
    st.lists(st.tuples(*[SMALL_NUMBER] * 4), max_size=30)
    | st.builds(random_choices, st.integers(0, 2**32), st.just(120))
)


class MixedGroup(RandomGroup):
    """As `RandomGroup`, with classic clients that join, sync, heartbeat, restart, and lose their way.

    Two of the static members share their instance ids with members of the consumer protocol.
    """

    def __init__(self, policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> None:
        super().__init__(
            group_consumer_migration_policy=policy, group_consumer_max_size=4, group_initial_rebalance_delay_ms=0
        )
        self.classic_clients = {
            name: SimulatedClient(
                self, name, instance_id={"c3": "i3"}.get(name), session_timeout_ms=30_000, rebalance_timeout_ms=20_000
            )
            for name in CLASSIC_MEMBERS
        }
        self.ids_drawn = 0
        self.classic_owned: dict[str, dict[str, list[int]]] = {name: {} for name in CLASSIC_MEMBERS}

    def run(self, choice: Choice) -> None:
        if choice[0] % 2:
            super().run((choice[0] // 2, *choice[1:]))
        else:
            action = pick(CLASSIC_ACTIONS, choice[0] // 2)
            action(self, self.classic_clients[pick(CLASSIC_MEMBERS, choice[1])], choice[2], choice[3])

    def classic_join(self, client: SimulatedClient, a: int, b: int) -> None:
        owned = self.classic_owned[client.name]
        if a % 3:
            owned = {topic: indexes[: len(indexes) // 2] for topic, indexes in owned.items()}
        client.topics, client.protocol_names = pick(TOPICS, a), pick(ASSIGNORS, b)
        client.metadata = b"\x00" if (a, b) == (7, 7) else subscription(*client.topics, owned=owned)
        client.version = 3 if a % 11 == 0 else 9
        self.ids_drawn += 1
        request = client.join(new_member_id=f"{client.name}-{self.ids_drawn}")
        self.forget_if_unknown(client, request)
        self.advance(0)

    def classic_sync(self, client: SimulatedClient, a: int, b: int) -> None:
        """A leader assigns foo to all members in turn; now and then it gives a partition twice, or user data."""
        if client.join_response is None:
            self.classic_join(client, a, b)
            return
        ids = [each.member_id for each in self.classic_clients.values() if each.member_id]
        shares = {
            member_id: {"foo": list(range(number if a % 13 else 0, 6, len(ids)))}
            for number, member_id in enumerate(ids)
        }
        user_data = b"custom" if b % 13 == 0 else None
        request = client.sync({each: assignment(share, user_data=user_data) for each, share in shares.items()})
        if request.response is not None and request.code is ErrorCode.NONE and request.response.assignment:
            self.classic_owned[client.name] = assigned_by(request.response)
        self.forget_if_unknown(client, request)

    def classic_heartbeat(self, client: SimulatedClient, a: int, b: int) -> None:
        request = client.heartbeat(generation_id=client.generation_id + (b % 9 == 0))
        self.forget_if_unknown(client, request)
        if request.code is ErrorCode.REBALANCE_IN_PROGRESS and a % 4:
            self.classic_join(client, a, b)
            self.classic_sync(client, a, b)

    def classic_leave(self, client: SimulatedClient, a: int, b: int) -> None:
        client.leave()
        self.restart(client, a, b)

    def restart(self, client: SimulatedClient, a: int, b: int) -> None:
        client.restart()
        self.classic_owned[client.name] = {}

    def classic_commit(self, client: SimulatedClient, a: int, b: int) -> None:
        client.commit(("foo", a % 6, b), generation_id=client.generation_id - (b % 5 == 0))

    def delay_the_log(self, client: SimulatedClient, a: int, b: int) -> None:
        """Members of both protocols send requests while the log commits nothing; then it does, or loses a record."""
        self.log_delays_appends = True
        client.commit(("foo", a % 6, b))
        if client.join_response is not None:
            client.sync({client.member_id: assignment({"foo": [a % 6]})})
        epoch = -1 if a % 3 == 0 else 0
        first = {} if epoch else {"rebalance_timeout_ms": 60_000, "owned": {}, "subscribed_topics": ("foo",)}
        self.send_beat("m1", epoch, **first)
        client.heartbeat()
        self.log_delays_appends = False
        while self.group.pending_appends:
            if b % 4 == 0:
                self.fail_append(ErrorCode.NOT_ENOUGH_REPLICAS)
            else:
                self.complete_append()
        self.clients["m1"] = Client()

    def forget_if_unknown(self, client: SimulatedClient, request: SentRequest) -> None:
        if request.response is not None and request.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self.restart(client, 0, 0)


M = MixedGroup
CLASSIC_ACTIONS: tuple[Callable[[MixedGroup, SimulatedClient, int, int], None], ...] = (
    *[M.classic_join] * 3,
    *[M.classic_sync] * 4,
    *[M.classic_heartbeat] * 6,
    M.classic_leave,
    M.restart,
    M.classic_commit,
    M.delay_the_log,
)


def run(
    choices: Sequence[Choice],
    on_request: Callable[[Group, SentRequest], None] | None = None,
    policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL,
) -> MixedGroup:
    """Run the choices. The harness checks the invariants after every command and event."""
    group = MixedGroup(policy)
    if on_request:
        group.on_request = on_request
    for choice in choices:
        group.run(choice)
    return group


@for_every_course
def test_the_replay_of_the_events_is_the_live_group(choices: list[Choice]) -> None:
    group = run(choices)
    assert fold(Group(group_id=GROUP_ID), group.events) == group.group


def offsets_of(group: Group) -> Any:
    pending = [append.offsets for append in group.pending_appends.values() if append.offsets]
    return group.committed_offsets, group.pending_transactional_offsets, pending


@for_every_course
def test_a_migration_loses_no_member_and_no_offset(choices: list[Choice]) -> None:
    """Apart from the invariants: the members that a command does not remove are there after it, and no others."""

    def check(before: Group, request: SentRequest) -> None:
        group = before
        for event in request.events:
            after = evolve(group, event)
            if isinstance(event, GroupUpgraded | GroupDowngraded):
                assert list(group.member_ids) == list(after.member_ids)
                assert group.kind is not after.kind
                assert offsets_of(group) == offsets_of(after)
            group = after

    run(choices, check)


@for_every_course
def test_no_request_is_held_in_a_group_of_the_consumer_protocol(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        if request.driver.group.consumer is not None:
            assert not request.driver._pending._held

    run(choices, check)


@for_every_course
def test_no_partition_has_two_holders_and_no_classic_member_gets_one_of_another(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        consumer = request.driver.group.consumer
        if consumer is None or not isinstance(request.command, c.SyncGroup):
            return
        if request.is_pending or request.code is not ErrorCode.NONE:
            return
        got = {(topic, each) for topic, indexes in assigned_by(request.response).items() for each in indexes}
        topics = request.driver.topics
        for member_id, member in consumer.members.items():
            held = {(topics.by_id[topic].name, each) for topic, each in member.held() if topic in topics.by_id}
            assert member_id == request.command.member_id or held.isdisjoint(got)

    run(choices, check)


@for_every_course
def test_every_event_and_every_group_is_the_same_after_encoding_and_decoding(choices: list[Choice]) -> None:
    def check(before: Group, request: SentRequest) -> None:
        for event_number, event in enumerate(request.events, before.event_number + 1):
            assert decode_event(encode_event(GROUP_ID, event_number, 1, event, None).stored_at(1)) == event
        after = request.driver.group
        assert decode_snapshot(encode_snapshot(after, 1, 1)) == after

    run(choices, check)


@given(st.builds(random_choices, st.integers(0, 2**32), st.just(80)), st.sampled_from(MigrationPolicy))
def test_the_policy_decides_which_migrations_there_are(choices: list[Choice], policy: MigrationPolicy) -> None:
    types = {type(event) for event in run(choices, policy=policy).events}
    assert policy.allows_upgrade or GroupUpgraded not in types
    assert policy.allows_downgrade or GroupDowngraded not in types


@for_every_course
def test_a_mixed_group_converges_once_its_members_follow_what_they_are_told(choices: list[Choice]) -> None:
    """Members of the consumer protocol report what they are assigned, classic ones join, sync and heartbeat."""
    group = run(choices)
    if group.group.consumer is None or not group.consumer.members:
        return
    group.classic_owned = {name: {} for name in CLASSIC_MEMBERS}
    for member in list(group.consumer.members.values()):
        known = {client.member_id for client in group.classic_clients.values()}
        is_lost = member.is_classic and member.member_id not in known
        if is_lost or member.is_away or member.profile.server_assignor == "range":
            group.remove_members(c.LeavingMember(member.member_id))
    for _ in range(10):
        if group.group.consumer is None:
            break
        for member in list(group.consumer.members.values()):
            if member.is_classic:
                continue
            owned = group.known(member.assigned)
            answer = group.beat(member.member_id, member.epoch, owned=owned, instance_id=member.instance_id)
            assert answer.code is ErrorCode.NONE
        for client in group.classic_clients.values():
            if client.member_id not in group.consumer.members:
                continue
            client.metadata = subscription(*client.topics)
            if client.heartbeat().code is not ErrorCode.NONE:
                assert client.send_join().code is ErrorCode.NONE
                assert client.sync().code is ErrorCode.NONE
        group.advance(1_000)
    assert group.group.consumer is None or group.state_name in ("Stable", "Empty")


def test_random_courses_reach_every_state_of_both_kinds_and_cause_every_type_of_event() -> None:
    events, states = Counter[str](), Counter[str]()

    def check(before: Group, request: SentRequest) -> None:
        states[f"{before.kind} {before.state_name}"] += 1
        events.update(type(event).__name__ for event in request.events)

    for seed in range(20):
        run(random_choices(seed, 200), check)
    assert {each.__name__ for each in get_args(AnyMigrationEvent) if events[each.__name__] < 5} == set()
    classic = {f"classic {each.value}" for each in GroupState}
    consumer = {f"consumer {each}" for each in ("Empty", "Assigning", "Reconciling", "Stable")}
    assert classic | consumer == {each for each, count in states.items() if count >= 5}
