"""What went wrong, in sentences and in pictures."""

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from regroup.classroom.incidents import Incident, IncidentKind, incidents_of
from regroup.classroom.pictures.mermaid import mermaid_picture
from regroup.classroom.pictures.part import PictureLimits, PicturePart, Unreadable, readable_part
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.points import PositionRange
from regroup.classroom.recorded_values import ExchangeFate
from regroup.classroom.story import story_lines
from regroup.server.explanation.sentences import time_text
from tests.classroom.recorded.recordings import timeline

LATER = "22:14:19.001"


def texts(what: str | int) -> list[str]:
    return [each.text for each in incidents_of(timeline(what))]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("rebalance-storm", []),
        ("two-clients-with-one-instance-id", ["ben-e781's Heartbeat was refused with FENCED_INSTANCE_ID."]),
        (
            "zombie-commits-after-removal",
            [f"ben's OffsetCommit was refused with UNKNOWN_MEMBER_ID 20 times, the last time at {LATER}."],
        ),
        ("lost-syncgroup-response", ["The response to ben's SyncGroup was lost: the plan loses this response."]),
        (
            "join-sent-again-while-the-first-is-held",
            [
                "ben's JoinGroup got no response twice, the last time at 22:13:35.105: the connection was lost.",
                "ben sent JoinGroup again, because it had got no response.",
            ],
        ),
        (
            "power-fails",
            [
                "anna's Heartbeat was lost on its way: broker 0 had stopped.",
                "ben's Heartbeat was lost on its way: broker 0 had stopped.",
                "anna's OffsetCommit was lost on its way twice, the last time at 22:13:56.021: broker 0 had stopped.",
                "ben's OffsetCommit was lost on its way twice, the last time at 22:13:56.022: broker 0 had stopped.",
                "ben sent OffsetCommit again, because it had got no response.",
                "anna sent OffsetCommit again, because it had got no response.",
            ],
        ),
    ],
)
def test_what_went_wrong_is_a_sentence_for_equal_requests_together(what: str, expected: list[str]) -> None:
    assert texts(what) == expected


@pytest.mark.quick("-", "[2]")
@pytest.mark.parametrize("what", ["partition-of-one-member", "zombie-commits-after-removal", 2, 4])
def test_every_refused_lost_or_late_request_of_a_member_is_in_an_incident(what: str | int) -> None:
    history = timeline(what)
    wrong = [
        each
        for each in history.exchanges
        if (each.is_refused or each.fate not in (ExchangeFate.ANSWERED, ExchangeFate.UNANSWERED))
        and each.api not in ("FindCoordinator", "DescribeGroups", "DeleteGroups")
    ]
    found = incidents_of(history)
    assert sum(each.count for each in found if each.kind is not IncidentKind.AGAIN) == sum(each.count for each in wrong)
    assert [each.at_ms for each in found] == sorted(each.at_ms for each in found)


def test_a_late_request_says_how_long_it_took() -> None:
    late = Incident(
        kind=IncidentKind.LATE, at_ms=1_000, last_ms=1_000, ended_ms=4_500, member_id="a", name="anna",
        api="SyncGroup", error="", reason="the network was slow", count=1,
    )  # fmt: skip
    assert late.text == "anna's SyncGroup and its response took 3.5 s: the network was slow."


def test_a_story_has_what_went_wrong_and_who_believed_what_in_the_order_of_time() -> None:
    history = timeline("zombie-commits-after-removal")
    lines = list(story_lines(history))
    believed = "ben and anna both believed that they owned orders 2-3, until 22:14:20.000."
    refused = f"ben's OffsetCommit was refused with UNKNOWN_MEMBER_ID 20 times, the last time at {LATER}."
    at = {line.text: index for index, line in enumerate(lines)}
    assert at[believed] < at[refused] < len(lines) - 1
    assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)
    assert lines[-1].text.startswith("At the end the group is Stable")


def test_the_end_of_a_story_is_not_before_a_time_that_it_names() -> None:
    history = timeline("first-join")
    last_ms = history.moments[-1].at_ms
    beats = next(each for each in history.exchanges if each.api == "Heartbeat")
    times = {"at_ms": last_ms + 10, "arrived_at_ms": last_ms + 10, "last_at_ms": last_ms + 90_000}
    refused = replace(beats, **times, error="UNKNOWN_MEMBER_ID", count=3, events=())
    *_, incident, end = story_lines(replace(history, exchanges=(refused,)))
    assert f"3 times, the last time at {time_text(last_ms + 90_000)}" in incident.text
    assert (end.at_ms, end.text[:10]) == (last_ms + 90_000, "At the end")


def test_a_part_of_a_story_has_what_went_wrong_in_that_part_alone() -> None:
    history = timeline("zombie-commits-after-removal")
    early = list(story_lines(history, PositionRange(1, 20)))
    assert not [line.text for line in early if "refused" in line.text or "believed" in line.text]


def test_the_text_has_a_row_and_a_sentence_for_each_incident() -> None:
    lines = text_picture(timeline("zombie-commits-after-removal")).splitlines()
    assert "  +39.988  Stable       2 │          ! Commit" in lines
    assert "  +39.988  ben's OffsetCommit was refused with UNKNOWN_MEMBER_ID 20 times, the" in lines
    assert "orders-2   ···b··aa" in lines
    assert not [line for line in lines if line.startswith("Not recorded")]


def test_the_sequence_diagram_has_broken_arrows_with_the_reason() -> None:
    assert "    C--xM2: response to SyncGroup lost - the plan loses this response" in mermaid_picture(
        timeline("lost-syncgroup-response")
    )
    lost = mermaid_picture(timeline("power-fails"))
    assert "--xC: Heartbeat lost - broker 0 had stopped" in lost
    refused = mermaid_picture(timeline("zombie-commits-after-removal"))
    assert "    M2->>C: OffsetCommit, 20 times\n    C-->>M2: UNKNOWN_MEMBER_ID" in refused


def test_the_svg_has_a_mark_for_each_incident_and_the_reasons_below() -> None:
    root = ElementTree.fromstring(svg_picture(timeline("power-fails")))
    lines = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}line")]
    assert (lines.count("lost"), lines.count("wrong")) == (4, 8)
    shown = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(each.endswith("anna's Heartbeat was lost on its way: broker 0 had stopped.") for each in shown)
    refused = ElementTree.fromstring(svg_picture(timeline("zombie-commits-after-removal")))
    assert [
        each.findtext("{http://www.w3.org/2000/svg}title")
        for each in refused.iter("{http://www.w3.org/2000/svg}rect")
        if each.get("class") == "refused"
    ] == texts("zombie-commits-after-removal")


def test_times_at_which_something_went_wrong_count_against_the_limit_of_a_picture() -> None:
    history = timeline("power-fails")
    part = PicturePart(history, history.positions)
    assert {each.at_ms for each in part.incidents} <= {*part.times_ms}
    events = {each.at_ms for each in part.moments}
    limits = PictureLimits(members=16, times=len(events | {part.ended_ms}))
    with pytest.raises(Unreadable, match=f"events at {len(part.times_ms)} times"):
        readable_part(history, history.positions, limits)
