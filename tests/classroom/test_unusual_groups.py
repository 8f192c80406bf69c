"""Groups without members, without partitions, without causes, and with two owners of one partition."""

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.pictures.mermaid import mermaid_picture
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.story import story_lines
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e
from regroup.coordinator.commands import DeadlineKind
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of


def story_of(timeline: GroupTimeline) -> list[str]:
    return [line.text for line in story_lines(timeline)]


def test_a_group_of_commits_alone() -> None:
    timeline = timeline_of("made", records_of([e.GroupCreated(at_ms=0, by_join=False), commit(1, 7), commit(2, 9)]))
    assert story_of(timeline) == [
        "The group was created by its first commit.",
        "A client that is no member committed twice, up to orders-0 at 9.",
        "At the end the group is Empty in generation 0.",
    ]
    assert "Group made" in svg_picture(timeline)
    assert "Empty" in text_picture(timeline)
    assert mermaid_picture(timeline).startswith("sequenceDiagram")


def test_a_group_of_another_protocol_has_no_partitions() -> None:
    events = generation_of("worker", assignments={"worker": b"\x00\x01"}, protocol_type="connect")
    timeline = timeline_of("made", records_of(events))
    assert not timeline.ownership
    assert "The assignor of worker gave 2 bytes to worker." in story_of(timeline)
    assert "owners" not in text_picture(timeline)
    assert ">owners<" not in svg_picture(timeline)


def test_a_partition_with_two_owners_is_marked() -> None:
    assignments = {"anna": assignment(*ORDERS), "ben": assignment(ORDERS[0])}
    timeline = timeline_of("made", records_of(generation_of("anna", "ben", assignments=assignments)))
    spans = {span.partition: span.owners for span in timeline.ownership_at(timeline.last.position)}
    assert spans == {ORDERS[0]: ("anna", "ben"), ORDERS[1]: ("anna",)}
    assert 'class="twice"' in svg_picture(timeline)
    (row,) = (line for line in text_picture(timeline).splitlines() if line.startswith("orders-0 "))
    assert row.endswith("!")


def test_commits_are_counted_by_member_up_to_the_next_rebalance() -> None:
    events = generation_of("anna", assignments={"anna": assignment(*ORDERS)})
    events += [commit(5_000 + number, 10 * number, "anna") for number in range(1, 38)]
    story = story_of(timeline_of("made", records_of(events)))
    assert "anna committed 37 times, up to orders-0 at 370." in story


def test_a_moment_says_which_deadlines_run_and_what_follows() -> None:
    timeline = timeline_of("made", records_of(generation_of("anna", "ben", assignments={"anna": assignment(*ORDERS)})))
    in_join_phase, in_sync_phase, at_end = timeline.moment_at(4), timeline.moment_at(5), timeline.moments[-1]
    assert in_join_phase is not None
    assert in_sync_phase is not None
    assert [(each.kind, each.at_ms) for each in in_join_phase.deadlines] == [(DeadlineKind.JOIN_PHASE, 4_000)]
    (sync,) = in_sync_phase.deadlines
    assert (sync.kind, sync.at_ms) == (DeadlineKind.SYNC_PHASE, 9_000)
    assert sync.follows == "the members that have not sent SyncGroup are removed"
    assert at_end.deadlines == ()
    assert (at_end.address, at_end.cause) == (f"event-{at_end.position}", None)
