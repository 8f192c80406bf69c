"""The document of the page against the timeline that it is made of, and against the events."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.kinds import READERS, reconciliation_of
from regroup.classroom.languages import Language
from regroup.classroom.page.document import armed_spans, encoded_document, state_machine
from regroup.classroom.page.totals import totals_of
from regroup.classroom.phrases.phrase import in_language
from regroup.classroom.points import Point
from regroup.classroom.sentences import cause_phrase, moment_sentence
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import MemberNames
from regroup.coordinator import events as e
from regroup.coordinator.group import GroupKind
from tests.classroom.consumer_histories import GROUP_ID, random_history
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history
from tests.classroom.made_histories import generation_of, records_of
from tests.classroom.page.reading import ReadSpan, ownership_of, spans_of, strings_of, texts_of, whole

STEP_COLUMNS = ("member", "position", "state", "epoch")


def document_of(timeline: GroupTimeline, after: int = 0) -> dict[str, Any]:
    document = json.loads(encoded_document(timeline, after=after))
    assert isinstance(document, dict)
    return document


def drawn_timelines(seed: int) -> list[GroupTimeline]:
    records = drawn_history(seed, minutes=3)
    return [timeline_of(group, records) for group in groups_of(records)]


def ends(began: Point, ended: Point | None) -> ReadSpan:
    return ReadSpan(began.position, ended and ended.position)


@settings(max_examples=5)
@given(SEEDS)
def test_a_document_holds_every_moment_and_span(seed: int) -> None:
    for timeline in drawn_timelines(seed):
        document = document_of(timeline)
        moments = document["moments"]
        assert whole(moments["position"]) == [each.position for each in timeline.moments]
        assert whole(moments["at"]) == [each.at_ms for each in timeline.moments]
        assert strings_of(document, moments["state"]) == [each.state for each in timeline.moments]
        assert strings_of(document, moments["leader"]) == [each.leader_id for each in timeline.moments]
        assert spans_of(document["lanes"]) == [ends(each.began, each.ended) for each in timeline.lanes]
        assert strings_of(document, document["lanes"]["name"]) == [each.name for each in timeline.lanes]
        assert spans_of(document["held"]) == [ends(each.began, each.ended) for each in timeline.held_requests]
        assert spans_of(document["states"]) == [ends(each.began, each.ended) for each in timeline.states]
        assert spans_of(document["generations"]) == [ends(each.began, each.ended) for each in timeline.generations]
        assert spans_of(document["rebalances"]) == [ends(each.began, each.ended) for each in timeline.rebalances]
        assert list(ownership_of(document)) == [
            (partition.topic, partition.partition, ends(span.began, span.ended), span.owners, span.assigned_to)
            for partition, spans in timeline.ownership.items()
            for span in spans
        ]


@settings(max_examples=5)
@given(SEEDS)
def test_every_position_of_a_span_has_its_time(seed: int) -> None:
    for timeline in drawn_timelines(seed):
        document = document_of(timeline)
        moments, points = document["moments"], document["points"]
        times = dict(zip(whole(moments["position"]), whole(moments["at"]), strict=True))
        times |= dict(zip(points["position"], points["at"], strict=True))
        expected = {
            point.position: point.at_ms
            for spans in timeline.ownership.values()
            for span in spans
            for point in (span.began, span.ended)
            if point
        }
        assert {position: times[position] for position in expected} == expected


@settings(max_examples=5)
@given(SEEDS, st.data())
def test_the_rest_of_a_history_completes_its_beginning(seed: int, data: st.DataObject) -> None:
    """A live page has a document up to some position, and takes in the changes since."""
    records = drawn_history(seed, minutes=3)
    group = data.draw(st.sampled_from(groups_of(records)))
    whole_timeline = timeline_of(group, records)
    cut = data.draw(st.sampled_from([moment.position for moment in whole_timeline.moments]))
    first = document_of(timeline_of(group, [each for each in records if each.position <= cut]))
    rest = document_of(whole_timeline, after=cut)
    complete = document_of(whole_timeline)
    assert whole(first["moments"]["position"]) + whole(rest["moments"]["position"]) == whole(
        complete["moments"]["position"]
    )
    assert _merged(first, rest, cut) == set(ownership_of(complete))
    for name in ("held", "states", "generations", "rebalances", "deadlines"):
        kept = [span for span in spans_of(first[name]) if span.ended is not None and span.ended <= cut]
        assert sorted(map(str, [*kept, *spans_of(rest[name])])) == sorted(map(str, spans_of(complete[name])))


def _merged(first: dict[str, Any], rest: dict[str, Any], cut: int) -> set[tuple[Any, ...]]:
    kept = {each for each in ownership_of(first) if each[2].ended is not None and each[2].ended <= cut}
    return kept | set(ownership_of(rest))


def test_topics_of_a_step_of_a_member_have_their_names() -> None:
    timeline = timeline_of(GROUP_ID, random_history(3))
    texts = zip((moment.type for moment in timeline.moments), document_of(timeline)["moments"]["event"], strict=True)
    topics = {topic for kind, text in texts if kind == "member-reconciled" for topic in json.loads(text)["assigned"]}
    assert topics
    assert topics <= {f"{name} {topic_id}" for topic_id, name in timeline.topic_names.items()}


def test_events_are_json_with_decoded_subscriptions_and_assignments() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    document = document_of(timeline)
    texts = dict(zip((moment.type for moment in timeline.moments), document["moments"]["event"], strict=True))
    joined = json.loads(texts["member-joined"])
    assert joined["profile"]["supported_protocols"] == [["range", {"topics": ["orders"]}]]
    written = {
        document["strings"][int(key[1:])]: value
        for key, value in json.loads(texts["assignment-written"])["assignments"].items()
    }
    last = next(moment.event for moment in reversed(timeline.moments) if isinstance(moment.event, e.AssignmentWritten))
    assert written.keys() == last.assignments.keys()
    assert sorted(index for each in written.values() for index in each["orders"]) == [0, 1, 2, 3, 4, 5]
    assert "at_ms" not in joined


@settings(max_examples=3)
@given(SEEDS)
def test_a_document_has_each_sentence_and_cause_in_both_languages(seed: int) -> None:
    for timeline in drawn_timelines(seed):
        document, names = document_of(timeline), MemberNames(timeline.names)
        phrases = [texts_of(document, number, values) for number, *values in document["phrases"]]
        moments, values = document["moments"], iter(document["moments"]["values"])
        for index, moment in enumerate(timeline.moments):
            number = moments["sentence"][index]
            texts = texts_of(document, number, [next(values) for _ in range(document["patterns"][number][0])])
            assert texts == [moment_sentence(moment, names, language) for language in Language]
            if moment.cause is not None:
                said = cause_phrase(moment.cause)
                assert phrases[moments["causeText"][index]] == [in_language(said, each) for each in Language]
        assert next(values, None) is None


def test_bytes_of_another_protocol_stay_base64() -> None:
    events = generation_of("a", assignments={"a": b"\xff\x00x"}, protocol_type="other")
    document = document_of(timeline_of("made", records_of(events)))
    written = next(json.loads(each) for each in document["moments"]["event"] if "assignments" in each)
    assert list(written["assignments"].values()) == ["/wB4"]


def test_a_text_that_looks_like_a_reference_is_not_taken_for_one() -> None:
    events = [e.GroupCreated(at_ms=1, by_join=True, reason="\x010"), e.GroupDeleted(at_ms=2, reason="\x01")]
    document = document_of(timeline_of("made", records_of(events)))
    reasons = [json.loads(each)["reason"] for each in document["moments"]["event"]]
    assert [document["strings"][int(each[1:])] for each in reasons] == ["\x010", "\x01"]


@pytest.mark.parametrize("kind", GroupKind)
def test_the_state_machine_is_the_table_of_the_coordinator(kind: GroupKind) -> None:
    drawn, table = state_machine(kind), READERS[kind].transitions
    assert set(drawn["transitions"]) == {(before, after) for before, allowed in table.items() for after in allowed}
    assert set(drawn["states"]) == set(table)


@settings(max_examples=5)
@given(st.integers(0, 10_000))
def test_a_document_has_the_states_and_epochs_of_members_and_what_they_have_to_give_up(seed: int) -> None:
    timeline = timeline_of(GROUP_ID, random_history(seed))
    document = document_of(timeline)
    assert document["kind"] == timeline.kind
    steps = document["steps"]
    for moment in timeline.moments:
        for member_id in moment.members:
            member = reconciliation_of(timeline.member_at(member_id, moment.position))
            assert member is not None
            last = [
                (document["strings"][state], epoch)
                for name, position, state, epoch in zip(*(steps[each] for each in STEP_COLUMNS), strict=True)
                if document["strings"][name] == member_id and position <= moment.position
            ][-1]
            assert last == ("away" if member.is_away else member.state.name, member.epoch)
    owned, sets = document["ownership"], document["ownership"]["sets"]
    found = [[] if each < 0 else [document["strings"][number] for number in sets[each]] for each in owned["revoking"]]
    expected = [list(span.revoking) for spans in timeline.ownership.values() for span in spans]
    assert found == (expected if any(expected) else [])


def test_each_deadline_runs_from_the_event_that_armed_it() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    spans = list(armed_spans(timeline.moments))
    for moment in timeline.moments:
        running = {
            armed
            for armed, began, ended in spans
            if began.position <= moment.position and (ended is None or moment.position < ended.position)
        }
        assert running == set(moment.deadlines)
    assert spans


def test_totals_add_up_what_the_events_say() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    totals = totals_of(timeline)
    assert (totals.events, totals.member_ids, totals.removed, totals.rebalances) == (len(timeline.moments), 4, 1, 3)
    at = {index: {} for index in range(6)}  # type: dict[int, dict[int, bool]]
    for partition, spans in timeline.ownership.items():
        for span in spans:
            if not span.owners:
                for ms in range(span.began.at_ms, (span.ended or timeline.last).at_ms):
                    at[partition.partition][ms] = True
    assert totals.unowned_partition_ms == sum(map(len, at.values()))


@pytest.mark.parametrize("name", ["eager-pause", "cooperative-pause"])
def test_a_document_is_small(name: str) -> None:
    timeline = timeline_of("lab", scenario_history(name))
    stored = sum(len(msgspec.json.encode(moment.event)) for moment in timeline.moments)
    assert len(encoded_document(timeline)) < 3 * stored
