"""What members believed they owned, as spans, and partitions with several owners by their own views."""

from itertools import pairwise

import pytest

from regroup.classroom.points import Point
from regroup.classroom.recorded.views import ViewsBuilder, disputes
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.recording.observations import ViewObserved
from tests.classroom.recorded.recordings import timeline


def view(client: str, at_ms: int, *indexes: int) -> ViewObserved:
    partitions = tuple(("orders", index) for index in indexes)
    return ViewObserved(at_ms, at_ms // 10, client, "g", f"{client}-1", partitions)


def built(*views: ViewObserved) -> ViewsBuilder:
    builder = ViewsBuilder()
    for each in views:
        builder.on_view(each)
    return builder


def test_a_view_lasts_until_the_member_believes_something_else() -> None:
    spans = built(view("anna", 10, 0, 1), view("ben", 15, 2), view("anna", 20, 1), view("anna", 30)).spans()
    assert [(each.client_id, [p for _, p in each.partitions], each.began, each.ended) for each in spans] == [
        ("anna", [0, 1], Point(1, 10), Point(2, 20)),
        ("ben", [2], Point(1, 15), None),
        ("anna", [1], Point(2, 20), Point(3, 30)),
    ]


def test_two_members_with_one_partition_are_a_dispute_for_as_long_as_both_believe_so() -> None:
    spans = built(
        view("anna", 10, 0, 1), view("ben", 15, 1), view("carla", 18, 1), view("anna", 20, 0), view("ben", 30)
    ).spans()
    found = [(each.partition.partition, each.clients, each.began.at_ms, each.ended) for each in disputes(spans)]
    assert found == [
        (1, ("anna", "ben"), 15, Point(1, 18)),
        (1, ("anna", "ben", "carla"), 18, Point(2, 20)),
        (1, ("ben", "carla"), 20, Point(3, 30)),
    ]


def test_a_partition_that_passes_on_in_one_millisecond_is_no_dispute() -> None:
    assert disputes(built(view("anna", 10, 0), view("anna", 20), view("ben", 20, 0)).spans()) == ()


def test_a_member_behind_a_cut_link_goes_on_believing_in_its_partitions() -> None:
    found = disputes(timeline("partition-of-one-member").views)
    assert {(each.partition, frozenset(each.clients)) for each in found} == {
        (TopicPartition("orders", 2), frozenset({"ben", "anna"})),
        (TopicPartition("orders", 3), frozenset({"ben", "carla"})),
    }


def test_without_faults_no_partition_has_two_owners() -> None:
    assert disputes(timeline("cooperative-pause").views) == ()
    assert disputes(timeline("rebalance-storm").views) == ()


@pytest.mark.parametrize("what", ["first-join", "rolling-restart-static", 9])
def test_the_views_of_one_member_follow_one_another(what: str | int) -> None:
    views = timeline(what).views
    assert views
    for client in {each.client_id for each in views}:
        own = [each for each in views if each.client_id == client]
        assert all(before.ended is not None and before.ended <= after.began for before, after in pairwise(own))
