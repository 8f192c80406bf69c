"""What was recorded beside the events, in the document of the page."""

import json
from base64 import b64encode
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.classroom.page import recordings
from regroup.classroom.page.document import encoded_document
from regroup.classroom.page.event_json import readable_message
from regroup.classroom.page.recordings import session_spans
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.recorded.session_clocks import SessionClocks
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator.events import MemberSynced
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from tests.classroom.page.reading import running_sessions, strings_of, whole
from tests.classroom.recorded.recordings import timeline

SCENARIOS = ["zombie-commits-after-removal", "partition-of-one-member", "lost-syncgroup-response"]


def document_of(shown: GroupTimeline, **options: Any) -> dict[str, Any]:
    document = json.loads(encoded_document(shown, **options))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", SCENARIOS)
def test_exchanges_and_views_are_whole(name: str) -> None:
    shown = timeline(name)
    assert shown.exchanges
    assert shown.views
    for after in (0, shown.moments[3].position):
        document = document_of(shown, after=after)
        columns, views = document["exchanges"], document["views"]
        times = whole(columns["at"])
        assert times == [each.at_ms for each in shown.exchanges]
        for name, field in (("answered", "answered_at_ms"), ("sent", "sent_at_ms"), ("received", "received_at_ms")):
            found = [None if since is None else at + since for at, since in zip(times, columns[name], strict=True)]
            assert found == [getattr(each, field) for each in shown.exchanges]
        assert strings_of(document, columns["fate"]) == [each.fate for each in shown.exchanges]
        assert columns["events"] == [list(each.events) for each in shown.exchanges]
        assert strings_of(document, views["member"]) == [each.member_id for each in shown.views]
        assert [tuple(each) for each in views["from"]] == [
            (each.began.at_ms, each.began.position) for each in shown.views
        ]
        assert [each and each[0] for each in views["until"]] == [
            each.ended and each.ended.at_ms for each in shown.views
        ]


def test_a_page_says_what_was_not_recorded() -> None:
    shown = timeline("zombie-commits-after-removal")
    assert document_of(shown)["recorded"]["missing"] == []
    bare = GroupTimeline(**{name: getattr(shown, name) for name in shown.__struct_fields__ if name != "recorded"})
    assert document_of(bare)["recorded"] == {
        "exchanges": False,
        "network": False,
        "views": False,
        "reads": False,
        "missing": ["session clocks", "lost messages", "refused requests", "the members' own views"],
    }
    assert document_of(bare)["sessions"] is None


def test_a_member_believes_until_it_learns_better() -> None:
    """Between two events: the time of the event before, at which the member was still an owner, is not the end."""
    shown = timeline("partition-of-one-member")
    view = next(each for each in shown.views if each.client_id == "ben" and each.ended)
    assert view.ended is not None
    before = view.ended.position
    after = next(each.position for each in shown.moments if each.position > before)
    assert view in [*shown.views_at(before)]
    assert view not in [*shown.views_at(after)]


def test_a_connection_that_was_closed_has_its_time() -> None:
    shown = timeline("partition-of-one-member")
    first, *rest = shown.exchanges
    closed = replace(first, answered_at_ms=None, closed_at_ms=first.at_ms + 700)
    columns = document_of(replace(shown, exchanges=(closed, *rest)))["exchanges"]
    assert columns["closed"][:2] == [700, None]


def test_subscriptions_in_messages_are_decoded() -> None:
    assigned = encode_assignment(Assignment(version=3, partitions=(TopicPartition("orders", 1),)))
    message = {"assignment": b64encode(assigned).decode(), "metadata": "not base64!"}
    assert readable_message({"a": [message]}) == {"a": [{"assignment": {"orders": [1]}, "metadata": "not base64!"}]}


def test_messages_stand_beside_their_exchanges() -> None:
    shown = timeline("lost-syncgroup-response")
    document = document_of(shown, messages={2: ExchangeMessages(request={"a": 1})})
    assert document["exchanges"]["request"][:3] == ["", '{"a":1}', ""]
    assert set(document["exchanges"]["response"]) == {""}


@pytest.mark.parametrize("name", SCENARIOS)
def test_sessions_equal_the_clocks_after_every_event(name: str) -> None:
    shown = timeline(name)
    spans, clocks = session_spans(shown), SessionClocks(shown)
    assert spans
    for moment in shown.moments:
        now = clocks.at(moment.position, moment.at_ms)
        expected: dict[str, int | None] = {each.member_id: each.at_ms for each in now.deadlines}
        assert running_sessions(spans, moment) == expected | dict.fromkeys(now.not_recorded)


def test_no_session_runs_while_a_syncgroup_is_held_for_less_than_a_millisecond() -> None:
    shown = timeline("partition-of-one-member")
    spans = session_spans(shown)
    assert spans
    held = [
        moment
        for moment in shown.moments
        if isinstance(moment.event, MemberSynced)
        and moment.event.awaits_assignment
        and moment.position != shown.position_at(moment.at_ms)
    ]
    assert held, "no SyncGroup was answered in the millisecond in which it came"
    for moment in held:
        assert isinstance(moment.event, MemberSynced)
        assert moment.event.member_id not in running_sessions(spans, moment)


def log_ends_in(document: dict[str, Any]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """The ends of logs in a document, by topic and partition."""
    columns, found, place = document["logEnds"], {}, 0
    for topic, index, count in columns["rows"]:
        at, offsets = (whole(columns[each][place : place + count]) for each in ("at", "offset"))
        found[document["strings"][topic], index] = list(zip(at, offsets, strict=True))
        place += count
    return found


def test_ends_of_logs_and_repeated_reads_are_whole() -> None:
    shown = timeline("zombie-commits-after-removal")
    for after in (0, shown.moments[3].position):
        document = document_of(shown, after=after)
        assert log_ends_in(document) == {tuple(each): list(map(tuple, ends)) for each, ends in shown.log_ends.items()}
        columns = document["reads"]
        assert sum(columns["count"]) == sum(
            each.record_count for reads in shown.repeated_reads.values() for each in reads
        )
        assert [count for _, _, count in columns["rows"]] == [len(reads) for reads in shown.repeated_reads.values()]


def test_of_too_many_ends_of_logs_some_and_the_last_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = timeline("zombie-commits-after-removal")
    monkeypatch.setattr(recordings, "MAX_LOG_ENDS", 20)
    found = log_ends_in(document_of(shown))
    assert sum(map(len, found.values())) <= 20 + len(found)
    for partition, ends in shown.log_ends.items():
        assert found[tuple(partition)][-1] == tuple(ends[-1])
        assert set(found[tuple(partition)]) <= set(map(tuple, ends))
