"""The lines of `regroup events`."""

from typing import Any

import msgspec
import pytest

from regroup.cli.store.events_text import MAX_LISTED_MEMBERS, EventFormatter
from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer_group import ReconciliationState, ResolvedRegex
from regroup.coordinator.group import CommittedOffset, MemberProfile
from regroup.coordinator.serialization import Cause, encode_cause, encode_event
from regroup.protocol.consumer.subscription import Assignment, encode_assignment, topic_partitions
from regroup.server.cluster.events import TopicCreated, encode_cluster_event
from regroup.storage.records import Record

NOON_MS = 12 * 3_600_000
ANNA = "anna-1f2e3d4c-0000-4000-8000-000000000001"


def record(event: e.Event, group: str = "g", cause: Cause | None = None) -> Record:
    return encode_event(group, 1, 1, event, encode_cause(cause) if cause else None).stored_at(7)


def line(event: e.Event, **about: Any) -> str:
    """The event's line without the day, the position and the time."""
    _, text = EventFormatter()(record(event, **about)).plain.split("\n", 1)
    assert text.startswith("     7  12:00:00.000  ")
    return text.removeprefix("     7  12:00:00.000  ")


def encoded(**topics: list[int]) -> bytes:
    return encode_assignment(
        Assignment(1, tuple(each for topic, numbers in topics.items() for each in topic_partitions(topic, numbers)))
    )


def test_each_day_has_a_heading() -> None:
    form = EventFormatter()
    times = [0, NOON_MS, 2 * NOON_MS]
    lines = [form(record(e.GroupDeleted(at_ms=at_ms))).plain.splitlines() for at_ms in times]
    assert [each[:-1] for each in lines] == [["1970-01-01, times in UTC"], [], ["1970-01-02, times in UTC"]]


def test_an_assignment_shows_the_partitions_of_each_member() -> None:
    assignment = {
        ANNA: encoded(orders=[0, 1, 2, 4], clicks=[3]),
        "ben": encoded(),
        "carla": b"",
        "connect": b"\x00\x01?",
    }
    assert line(e.AssignmentWritten(at_ms=NOON_MS, assignments=assignment)) == (
        "g                assignment-written     orders 0-2,4 and clicks 3 to anna-1f2e3d4c…, nothing to ben, "
        "nothing to carla, 3 bytes to connect"
    )


def test_a_long_assignment_is_cut_short() -> None:
    assignment = {f"m{number}": encoded(orders=[number]) for number in range(MAX_LISTED_MEMBERS + 30)}
    text = line(e.AssignmentWritten(at_ms=NOON_MS, assignments=assignment))
    assert text.endswith(f"orders {MAX_LISTED_MEMBERS - 1} to m{MAX_LISTED_MEMBERS - 1}, and 30 more")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (e.RebalanceStarted(at_ms=NOON_MS, deadline_ms=1, is_initial=True), "rebalance-started      initial"),
        (e.GroupCreated(at_ms=NOON_MS, by_join=False), "group-created"),
        (
            e.MemberSynced(at_ms=NOON_MS, member_id=ANNA, awaits_assignment=False),
            "member-synced          member anna-1f2e3d4c…",
        ),
        (e.TransactionEnded(at_ms=NOON_MS, producer_id=0, committed=False), "producer id 0, aborted"),
        (e.TransactionEnded(at_ms=NOON_MS, producer_id=0, committed=True), "producer id 0, committed"),
        (
            e.MemberRemoved(
                at_ms=NOON_MS, member_id="m", last_seen_ms=NOON_MS - 3_000, timeout_ms=3_000, reason="of its timeout"
            ),
            "member m, last seen 11:59:57.000, timeout 3000 ms  because of its timeout",
        ),
        (e.OffsetsDeleted(at_ms=NOON_MS, partitions={"orders": (0, 1, 3)}), "orders 0-1,3"),
        (
            e.GenerationStarted(
                at_ms=NOON_MS, generation_id=2, protocol_name="range", leader_id=ANNA,
                subscribed_topics=("clicks", "orders"), sync_deadline_ms=1,
            ),
            "generation 2, protocol name range, leader anna-1f2e3d4c…, subscribed topics clicks, orders",
        ),
        (
            e.OffsetsCommitted(at_ms=NOON_MS, offsets={"orders": {3: CommittedOffset(41)}}, member_id="m"),
            "orders-3 at 41, member m",
        ),
    ],
)  # fmt: skip
def test_the_details_of_an_event_end_its_line(event: e.Event, expected: str) -> None:
    assert line(event).endswith(expected)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Cause(test="expire"), "(test: expire)"),
        (Cause(test="bump-generation", beyond_kafka=True), "(test: bump-generation, which Kafka never does)"),
        (Cause(deadline="session"), "(session deadline)"),
    ],
)
def test_the_act_of_a_test_is_shown_as_the_cause(cause: Cause, expected: str) -> None:
    assert line(e.GenerationRaised(at_ms=NOON_MS, generation_id=3), cause=cause).endswith(f"generation 3  {expected}")


EVIL = "\x1b[31mred\x1b]0;pwned\x07\nx\x9b2J\u202e"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ConsumerGroupHeartbeat", "it sent ConsumerGroupHeartbeat with member epoch -1"),
        ("the consumer is being closed", "the consumer is being closed"),
    ],
)
def test_a_member_that_left_says_how(reason: str, shown: str) -> None:
    assert line(e.MemberLeft(at_ms=NOON_MS, member_id="m1", reason=reason)).endswith(f"member m1  because {shown}")


def test_control_characters_of_clients_are_escaped() -> None:
    joined = e.MemberJoined(
        at_ms=NOON_MS, member_id=EVIL, protocol_type=EVIL, reason=EVIL,
        profile=MemberProfile(
            client_id=EVIL, client_host=EVIL, session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=()
        ),
    )  # fmt: skip
    text = line(joined, group=EVIL, cause=Cause(api="JoinGroup", client_id=EVIL))
    assert text.isprintable()
    assert text.count(r"\x1b[31mred\x1b]0;pwned\x07\nx\x9b2J\u202e") == 7
    for event in (
        e.AssignmentWritten(at_ms=NOON_MS, assignments={EVIL: encoded(**{EVIL: [1]})}),
        e.OffsetsCommitted(at_ms=NOON_MS, offsets={EVIL: {0: CommittedOffset(1)}}),
        e.CoordinatorLoaded(at_ms=NOON_MS, subscribed_topics=(EVIL,), lost=(EVIL,)),
    ):
        assert line(event).isprintable()


def test_an_event_of_the_cluster_has_no_group() -> None:
    payload = msgspec.json.encode({"name": "orders", "partitions": 7, "configs": {}})
    cluster = Record(None, 1, 1, NOON_MS, "topic-created", 1, payload, None, position=7)
    assert EventFormatter()(cluster).plain.endswith("(cluster)        topic-created          name orders, partitions 7")


def topic_created(name: str, topic_id: str) -> Record:
    event = TopicCreated(name=name, topic_id=topic_id, partitions=7)
    stored = encode_cluster_event(event, event_number=1, coordinator_epoch=1, at_ms=NOON_MS, cause=Cause())
    return stored.stored_at(1)


def test_events_of_consumer_groups_name_topics_and_what_members_have_and_give_up() -> None:
    form = EventFormatter({"t1": "bills"})
    form(topic_created("orders", "t2"))
    step = ce.MemberReconciled(
        at_ms=NOON_MS, member_id="anna", state=ReconciliationState.UNREVOKED_PARTITIONS, epoch=2, previous_epoch=2,
        assigned={"t2": {0: 1, 1: 2}}, pending_revocation={"t1": {0: 1}, "gone": {3: 1}},
        revocation_deadline_ms=NOON_MS + 60_000,
    )  # fmt: skip
    assert form(record(step)).plain.endswith(
        "member anna, state unrevoked-partitions, epoch 2, previous epoch 2, assigned orders 0-1, "
        "to give up bills 0 and gone 3, revocation deadline 12:01:00.000"
    )
    shares = {"anna": {"t1": (0, 1), "t2": (0,)}, "ben": {}}
    target = ce.TargetAssigned(at_ms=NOON_MS, assignment_epoch=2, assigned_at_ms=1, assignor="uniform", targets=shares)
    assert form(record(target)).plain.endswith(
        "target-assigned        assignment epoch 2, assignor uniform, bills 0-1 and orders 0 to anna, nothing to ben"
    )
    resolved = {"^o.*": ResolvedRegex(("orders",), 1), "^x": ResolvedRegex((), 1)}
    regexes = ce.RegexesResolved(at_ms=NOON_MS, resolved=resolved)
    assert form(record(regexes)).plain.endswith("^o.* matches orders, ^x matches no topic")
