"""Commits and fetches of members in random courses of the consumer protocol: with member epochs, right and wrong."""

from typing import Any, Final

from regroup.conformance.differential.consumer_groups.consumer_member import CourseConsumer
from regroup.conformance.differential.consumer_groups.course_topics import FIRST, CourseTopics
from regroup.conformance.differential.random_course import CourseMove
from regroup.conformance.harness.broker_under_test import FOO_TOPIC
from regroup.conformance.harness.expect import PartitionKey
from regroup.conformance.harness.member import offset_commit_topics
from regroup.conformance.harness.sent_request import SentRequest
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

FETCH_VERSION_WITH_EPOCH: Final = 9
FIRST_COMMIT_WITH_EPOCH: Final = 9
FIRST_COMMIT_WITH_INSTANCE_ID: Final = 7
OLD_COMMITS: Final = 0.15
"""The share of commits in versions without member epochs."""
MOST_PARTITIONS: Final = 4


def commit_of_member(
    number: int, move: CourseMove, member: CourseConsumer, topics: CourseTopics, versions: range
) -> SentRequest[Any]:
    """Send one OffsetCommit of a member, mostly for partitions that it owns and with its present or its previous epoch.

    The move decides both; `number`, that of the move, is the offset. The version is one of `versions`.
    """
    group, client = member.group, member.client
    assert group is not None
    version = _commit_version(move, versions, has_instance_id=client.instance_id is not None)
    request = OffsetCommitRequest(
        group_id=group.story.group_id,
        generation_id_or_member_epoch=_epoch(move, member),
        member_id=client.id,
        group_instance_id=client.instance_id if version >= FIRST_COMMIT_WITH_INSTANCE_ID else None,
        topics=offset_commit_topics(
            dict.fromkeys(_partitions(move, member, topics), number),
            topic_ids={**group.story.target.topic_ids, **topics.ids},
        ),
    )
    return group.story.send(request, OffsetCommitResponse, version=version, sender=client.name)


def fetch_of_member(
    number: int, move: CourseMove, member: CourseConsumer, topics: CourseTopics
) -> SentRequest[OffsetFetchResponse]:
    """Send one OffsetFetch with the id of a member and an epoch, mostly its present or its previous one."""
    group = member.group
    assert group is not None
    named = [
        OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
        for name, numbers in by_topic(_partitions(move, member, topics)).items()
    ]
    asked = OffsetFetchRequestGroup(
        group_id=group.story.group_id,
        member_id=member.own_id,
        member_epoch=_epoch(move, member),
        topics=named if move.variant % 2 else None,
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=number % 3 == 0)
    return group.story.send(request, OffsetFetchResponse, version=FETCH_VERSION_WITH_EPOCH, sender=member.client.name)


def _commit_version(move: CourseMove, versions: range, *, has_instance_id: bool) -> int:
    newer = [each for each in versions if each >= FIRST_COMMIT_WITH_EPOCH]
    possible = newer if newer and move.version > OLD_COMMITS else [*versions]
    if has_instance_id:
        possible = [each for each in possible if each >= FIRST_COMMIT_WITH_INSTANCE_ID] or [versions[-1]]
    return possible[int(move.version * 100) % len(possible)]


def _epoch(move: CourseMove, member: CourseConsumer) -> int:
    """The epoch that a commit or fetch of the member names: for most moves its present one, for some an older or newer
    one, or -1."""
    mistakes = {0: member.previous[0], 1: member.epoch - 1, 2: member.epoch + 1, 3: member.previous[0], 4: -1}
    return mistakes.get(move.variant, member.epoch)


def _partitions(move: CourseMove, member: CourseConsumer, topics: CourseTopics) -> list[PartitionKey]:
    owned = sorted((topic, each) for topic, numbers in member.owned.items() for each in numbers)
    before = sorted((topic, each) for topic, numbers in member.previous[1].items() for each in numbers)
    others = [(FOO_TOPIC, move.variant % 3), (topics.name(FIRST), 0)]
    wanted = (owned, owned + before, owned + others, others)[move.variant % 4]
    return [*dict.fromkeys(wanted)][:MOST_PARTITIONS] or others
