"""Observations have names in place of what two brokers name differently."""

from regroup.conformance.differential.normalise import CourseNames, error_codes
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from regroup.protocol.messages.group import JoinGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from regroup.protocol.messages.transactions import InitProducerIdResponse

TOPIC_ID = bytes(range(16))


def new_names() -> CourseNames:
    return CourseNames({"course-1": "group A", "course-1-B": "group B"}, {"foo": TOPIC_ID})


def test_member_ids_are_named_after_the_moves_that_assigned_them() -> None:
    names = new_names()
    names.add("regroup-1", "actor 0 of move 3")
    names.add("regroup-1", "another name")
    names.add("i0-2", "actor 0 of move 7")
    response = names.normalise_response(JoinGroupResponse(member_id="regroup-1", leader="i0-2", generation_id=4))
    assert (response["member_id"], response["leader"]) == ("actor 0 of move 3", "actor 0 of move 7")


def test_groups_and_topic_ids_have_names_also_within_other_texts() -> None:
    names = new_names()
    results = [
        DeletableGroupResult(group_id="course-1-B", error_code=E.NON_EMPTY_GROUP),
        DeletableGroupResult(group_id="course-1-absent", error_code=E.GROUP_ID_NOT_FOUND),
    ]
    deletion = names.normalise_response(DeleteGroupsResponse(results=results))["results"]
    assert isinstance(deletion, list)
    assert [(each["group_id"], each["error_code"]) for each in deletion] == [
        ("group A-absent", "GROUP_ID_NOT_FOUND"),
        ("group B", "NON_EMPTY_GROUP"),
    ]
    committed = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(topic_id=TOPIC_ID, partitions=[OffsetCommitResponsePartition(partition_index=0)])
        ]
    )
    assert "id of foo" in str(names.normalise_response(committed))


def test_producer_ids_are_named_after_the_moves_that_assigned_them() -> None:
    names = new_names()
    first = names.normalise_response(InitProducerIdResponse(producer_id=77, producer_epoch=0), "3")
    again = names.normalise_response(InitProducerIdResponse(producer_id=77, producer_epoch=1), "9")
    assert (first["producer_id"], again["producer_id"]) == ("id of move 3", "id of move 3")


def test_only_groups_of_the_course_are_listed() -> None:
    groups = [ListedGroup(group_id=name, protocol_type="") for name in ("course-1", "course-11", "another")]
    listed = new_names().normalise_response(ListGroupsResponse(groups=groups))["groups"]
    assert [each["group_id"] for each in listed] == ["group A"]  # type: ignore[attr-defined]


def test_a_member_id_that_will_be_replaced_later_is_found_by_its_actor() -> None:
    names = new_names()
    names.add("i0-1", "group A actor 0 of move 3")
    assert names.id_of("group A actor 0 of move 3") == "i0-1"
    assert names.id_of("group A actor 0 of move 9") == "i0-1"
    assert names.id_of("group A actor 1 of move 4") == ""


def test_a_member_id_without_a_name_has_no_random_part() -> None:
    response = JoinGroupResponse(member_id="regroup-00000000-1111-2222-3333-444444444444")
    assert new_names().normalise_response(response)["member_id"] == "regroup-?"


def test_a_lost_connection_is_an_observation() -> None:
    assert new_names().normalise_response(ConnectionError("gone")) == {"failure": "gone"}


def test_the_error_codes_of_a_response_are_those_of_all_its_parts() -> None:
    partitions = [OffsetCommitResponsePartition(partition_index=number, error_code=number) for number in (0, 3)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="foo", partitions=partitions)])
    assert sorted(error_codes(response)) == [0, 3]
    assert [*error_codes(JoinGroupResponse(error_code=E.ILLEGAL_GENERATION, member_id=""))] == [E.ILLEGAL_GENERATION]
