"""The lines of `regroup events`."""

from typing import Any

import msgspec
import pytest

from regroup.cli.store.events_text import MOST_SHARES, TextForm
from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset
from regroup.coordinator.serialization import Cause, written, written_cause
from regroup.protocol.consumer.subscription import Assignment, encode_assignment, topic_partitions
from regroup.storage.records import Record

NOON_MS = 12 * 3_600_000
ANNA = "anna-1f2e3d4c-0000-4000-8000-000000000001"


def record(event: e.Event, group: str = "g", cause: Cause | None = None) -> Record:
    new = written(group, 1, 1, event, written_cause(cause) if cause else None)
    return Record(*(getattr(new, name) for name in new.__struct_fields__), position=7)


def line(event: e.Event, **about: Any) -> str:
    """Without the day, the position and the time."""
    _, told = TextForm()(record(event, **about)).plain.split("\n", 1)
    assert told.startswith("     7  12:00:00.000  ")
    return told.removeprefix("     7  12:00:00.000  ")


def share(**topics: list[int]) -> bytes:
    return encode_assignment(
        Assignment(1, tuple(each for topic, numbers in topics.items() for each in topic_partitions(topic, numbers)))
    )


def test_a_day_is_named_once_when_it_begins() -> None:
    form = TextForm()
    times = [0, NOON_MS, 2 * NOON_MS]
    lines = [form(record(e.GroupDeleted(at_ms=at_ms))).plain.splitlines() for at_ms in times]
    assert [each[:-1] for each in lines] == [["1970-01-01, times in UTC"], [], ["1970-01-02, times in UTC"]]


def test_an_assignment_says_who_got_what() -> None:
    assignment = {ANNA: share(orders=[0, 1, 2, 4], clicks=[3]), "ben": share(), "carla": b"", "connect": b"\x00\x01?"}
    assert line(e.AssignmentWritten(at_ms=NOON_MS, assignment=assignment)) == (
        "g                assignment-written     orders 0-2,4 and clicks 3 to anna-1f2e3d4c…, nothing to ben, "
        "nothing to carla, 3 bytes to connect"
    )


def test_an_assignment_to_very_many_is_cut_short() -> None:
    assignment = {f"m{number}": share(orders=[number]) for number in range(MOST_SHARES + 30)}
    told = line(e.AssignmentWritten(at_ms=NOON_MS, assignment=assignment))
    assert told.endswith(f"orders {MOST_SHARES - 1} to m{MOST_SHARES - 1}, and 30 more")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (e.RebalanceStarted(at_ms=NOON_MS, deadline_ms=1, initial=True), "rebalance-started      initial"),
        (e.GroupCreated(at_ms=NOON_MS, by_join=False), "group-created"),
        (e.MemberSynced(at_ms=NOON_MS, member=ANNA, waits=False), "member-synced          member anna-1f2e3d4c…"),
        (e.TransactionEnded(at_ms=NOON_MS, producer_id=0, committed=False), "producer id 0, aborted"),
        (e.TransactionEnded(at_ms=NOON_MS, producer_id=0, committed=True), "producer id 0, committed"),
        (
            e.MemberExpelled(
                at_ms=NOON_MS, member="m", last_heard_ms=NOON_MS - 3_000, timeout_ms=3_000, reason="silence"
            ),
            "member m, last heard 11:59:57.000, timeout 3000 ms  because silence",
        ),
        (e.OffsetsForgotten(at_ms=NOON_MS, partitions={"orders": (0, 1, 3)}), "orders 0-1,3"),
        (
            e.GenerationStarted(
                at_ms=NOON_MS, generation=2, protocol_name="range", leader=ANNA,
                subscribed_topics=("clicks", "orders"), sync_deadline_ms=1,
            ),
            "generation 2, protocol name range, leader anna-1f2e3d4c…, subscribed topics clicks, orders",
        ),
        (
            e.OffsetsCommitted(at_ms=NOON_MS, offsets={"orders": {3: CommittedOffset(41)}}, member="m"),
            "orders-3 at 41, member m",
        ),
    ],
)  # fmt: skip
def test_what_an_event_says_ends_its_line(event: e.Event, expected: str) -> None:
    assert line(event).endswith(expected)


EVIL = "\x1b[31mred\x1b]0;pwned\x07\nx\x9b2J\u202e"


def test_no_name_of_a_client_reaches_the_terminal_raw() -> None:
    joined = e.MemberJoined(
        at_ms=NOON_MS, member=EVIL, client_id=EVIL, client_host=EVIL, session_timeout_ms=1, rebalance_timeout_ms=1,
        protocol_type=EVIL, protocols=(), reason=EVIL,
    )  # fmt: skip
    told = line(joined, group=EVIL, cause=Cause(api="JoinGroup", client_id=EVIL))
    assert told.isprintable()
    assert told.count(r"\x1b[31mred\x1b]0;pwned\x07\nx\x9b2J\u202e") == 7
    for event in (
        e.AssignmentWritten(at_ms=NOON_MS, assignment={EVIL: share(**{EVIL: [1]})}),
        e.OffsetsCommitted(at_ms=NOON_MS, offsets={EVIL: {0: CommittedOffset(1)}}),
        e.CoordinatorLoaded(at_ms=NOON_MS, subscribed_topics=(EVIL,), forgotten=(EVIL,)),
    ):
        assert line(event).isprintable()


def test_a_cluster_s_event_has_no_group() -> None:
    payload = msgspec.json.encode({"name": "orders", "partitions": 7, "configs": {}})
    cluster = Record(None, 1, 1, NOON_MS, "topic-created", 1, payload, None, position=7)
    assert TextForm()(cluster).plain.endswith("(cluster)        topic-created          name orders, partitions 7")
