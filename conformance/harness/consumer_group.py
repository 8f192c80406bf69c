"""A group of the consumer protocol (KIP-848) whose members' requests a story sends one by one, valid or not.

group = await ConsumerProtocolGroup.begin(story)
expect_answer(await group.join("m1"), epoch=2, assignment={SIX_TOPIC: [0, 1, 2, 3, 4, 5]})
expect_answer(await group.beat("m1", 2), epoch=2, assignment=None)
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypedDict, Unpack

from regroup.conformance.harness.broker_under_test import SIX_TOPIC, UNKNOWN_TOPIC_ID
from regroup.conformance.harness.expect import (
    PartitionKey,
    expect,
    expect_equal,
    expect_error,
    expect_true,
    fetched_offsets,
    group_error,
)
from regroup.conformance.harness.member import offset_commit_topics
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsEntry,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

PartitionsByTopic = Mapping[str, Sequence[int]]
"""Partition indexes by the name of their topic."""

ALL, LOW, HIGH = ({SIX_TOPIC: [*numbers]} for numbers in (range(6), range(3), range(3, 6)))
"""All partitions of the topic, and the halves that its first and its second member get."""

NOTHING: PartitionsByTopic = {}
UNCHANGED = "unchanged"
"""Stands for an assignment, an epoch or a state that is not checked."""

REBALANCE_TIMEOUT_MS = 60_000
MEMBER_EPOCH_COMMIT_VERSION = 9
"""The version of OffsetCommit and OffsetFetch in which member epochs are sent."""
METADATA_VERSION = 12
DELETE_TOPICS_BY_NAME_VERSION = 5
GROUP_RESOURCE, SET_OPERATION, DELETE_OPERATION = 32, 0, 1
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
APPLY_PAUSE_S = 0.15
"""Seconds from the response about a topic or a setting until the coordinator knows of it, too.

Nothing that a client can ask shows that moment.
"""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The response to a ConsumerGroupHeartbeat, with its assignment by topic name; None if it carries none."""

    response: ConsumerGroupHeartbeatResponse
    assignment: PartitionsByTopic | None


class HeartbeatFields(TypedDict, total=False):
    """The fields of a ConsumerGroupHeartbeat that a story seldom sets."""

    names: Sequence[str] | None
    regex: str | None
    assignor: str | None
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    group_id: str
    version: int | None
    client_id: str
    sender: str


class ConsumerProtocolGroup:
    """The group of the consumer protocol with which a story works. It sends the requests of members, by their member
    ids.

    `epoch` is the group epoch in the state from which the story starts.
    """

    def __init__(self, story: StoryContext, topic_ids: dict[str, bytes] | None = None) -> None:
        self.story = story
        self.epoch = 0
        self._own_topic_ids: dict[str, bytes] = {}
        self._topic_ids = ChainMap[str, bytes](self._own_topic_ids, {**story.target.topic_ids})
        if topic_ids is not None:
            self._topic_ids.maps.append(topic_ids)

    @classmethod
    async def begin(cls, story: StoryContext, topic_ids: dict[str, bytes] | None = None, **configs: int) -> Self:
        """Make an object for the story's group and set the dynamic configs of the group, which has no members yet.

        `configs` are named without `consumer.`, with underscores. Unless they have an assignment interval, it is set to
        0. `topic_ids` are the ids of further topics by name; topics may be added to it later. Raises VersionNotOffered
        if the broker does not have the protocol.
        """
        story.target.version_for(ConsumerGroupHeartbeatRequest(group_id="", member_id="", member_epoch=0))
        group = cls(story, topic_ids)
        interval = "assignment_interval_ms"
        if interval not in configs and story.target.settings.get(f"group.{ASSIGNMENT_INTERVAL}") != "0":
            await group._try_without_interval()
        if configs:
            await group.configure(**configs)
        return group

    async def _try_without_interval(self) -> None:
        """Set the group's assignment interval to 0, if the broker has IncrementalAlterConfigs."""
        if "IncrementalAlterConfigs" in self.story.target.versions:
            await self.alter_configs({ASSIGNMENT_INTERVAL: "0"})
            await self.story.sleep(APPLY_PAUSE_S)

    async def configure(self, **configs: int) -> None:
        """Set dynamic configs of the group, and wait until they apply. They are named as in `begin`."""
        named = {f"consumer.{name.replace('_', '.')}": str(value) for name, value in configs.items()}
        expect((await self.alter_configs(named)).responses[0], error=E.NONE)
        await self.story.sleep(APPLY_PAUSE_S)

    def alter_configs(
        self, configs: Mapping[str, str | None], *, group_id: str | None = None
    ) -> SentRequest[IncrementalAlterConfigsResponse]:
        """Send one IncrementalAlterConfigs for the group; None deletes a config."""
        entries = [
            IncrementalAlterConfigsEntry(
                name=name, config_operation=DELETE_OPERATION if value is None else SET_OPERATION, value=value
            )
            for name, value in configs.items()
        ]
        name = self.story.group_id if group_id is None else group_id
        resource = IncrementalAlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=name, configs=entries)
        return self.story.send(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse)

    # Members

    async def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: PartitionsByTopic | None = None,
        **fields: Unpack[HeartbeatFields],
    ) -> HeartbeatAnswer:
        """Send one ConsumerGroupHeartbeat. `owned` are the partitions that the member reports; None reports none."""
        return self.named(await self.send_beat(member_id, epoch, owned=owned, **fields))

    def named(self, response: ConsumerGroupHeartbeatResponse) -> HeartbeatAnswer:
        """The response as a HeartbeatAnswer, whose assignment has topic names in place of topic ids."""
        given = None if response.assignment is None else response.assignment.topic_partitions
        return HeartbeatAnswer(response, None if given is None else self._by_name(given))

    def send_beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: PartitionsByTopic | None = None,
        **fields: Unpack[HeartbeatFields],
    ) -> SentRequest[ConsumerGroupHeartbeatResponse]:
        """Send one ConsumerGroupHeartbeat as `beat` does, without waiting for the response."""
        names = fields.get("names")
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.get("group_id", self.story.group_id),
            member_id=member_id,
            member_epoch=epoch,
            instance_id=fields.get("instance_id"),
            rack_id=fields.get("rack_id"),
            rebalance_timeout_ms=fields.get("rebalance_timeout_ms", -1),
            subscribed_topic_names=None if names is None else [*names],
            subscribed_topic_regex=fields.get("regex"),
            server_assignor=fields.get("assignor"),
            topic_partitions=None if owned is None else self._reported(owned),
        )
        return self.story.send(
            request,
            ConsumerGroupHeartbeatResponse,
            version=fields.get("version"),
            sender=fields.get("sender", member_id),
            client_id=fields.get("client_id", "regroup"),
        )

    async def join(self, member_id: str, *topics: str, **fields: Unpack[HeartbeatFields]) -> HeartbeatAnswer:
        """Send a ConsumerGroupHeartbeat with epoch 0 for this member; without `topics` it subscribes to the topic of
        six partitions.

        `fields` are further fields of the request. Returns the answer, which may be an error.
        """
        complete: HeartbeatFields = {
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "names": topics or (SIX_TOPIC,),
            **fields,
        }
        return await self.beat(member_id, 0, owned=NOTHING, **complete)

    async def leave(self, member_id: str) -> None:
        """Let a member leave the group by a heartbeat with epoch -1, and expect that the broker accepts it."""
        expect_answer(await self.beat(member_id, -1))

    def _reported(self, owned: PartitionsByTopic) -> list[ConsumerGroupTopicPartitions]:
        return [
            ConsumerGroupTopicPartitions(topic_id=self._topic_ids.get(name, UNKNOWN_TOPIC_ID), partitions=[*numbers])
            for name, numbers in owned.items()
        ]

    def _by_name(self, assignment: Sequence[ConsumerGroupTopicPartitions]) -> PartitionsByTopic:
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        return {names.get(each.topic_id, each.topic_id.hex()): sorted(each.partitions) for each in assignment}

    # What the coordinator shows

    async def describe(self, version: int | None = None) -> DescribedConsumerGroup:
        """The group as ConsumerGroupDescribe returns it."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.story.group_id])
        response = await self.story.send(request, ConsumerGroupDescribeResponse, version=version, sender="observer")
        expect_true(len(response.groups) == 1, f"ConsumerGroupDescribe of one group returned {len(response.groups)}")
        return response.groups[0]

    async def described_member(self, member_id: str) -> DescribedConsumer:
        """One member as ConsumerGroupDescribe returns it."""
        members = {each.member_id: each for each in (await self.describe()).members}
        expect_true(member_id in members, f"{member_id} should be a member, but these are: {', '.join(members)}")
        return members[member_id]

    async def expect_group(self, state: str, epoch: int, assignment_epoch: int | None = None) -> None:
        """Expect that the group is in this state, with this group epoch and, by default the same, assignment epoch."""
        wanted = (state, epoch, epoch if assignment_epoch is None else assignment_epoch)
        group = await self.describe()
        expect_error("ConsumerGroupDescribe", E.NONE, group.error_code)
        shown = (group.group_state, group.group_epoch, group.assignment_epoch)
        expect_equal("state, group epoch and assignment epoch", wanted, shown)

    async def expect_member(
        self, member_id: str, epoch: int, assigned: PartitionsByTopic, target: PartitionsByTopic | None = None
    ) -> None:
        """Expect that a member has this epoch, assignment and, by default the same, target."""
        member = await self.described_member(member_id)
        expect(member, member_epoch=epoch)
        expect_equal(f"assignment of {member_id}", dict(assigned), described_partitions(member.assignment))
        wanted = assigned if target is None else target
        expect_equal(f"target of {member_id}", dict(wanted), described_partitions(member.target_assignment))

    async def expect_members(self, *member_ids: str) -> None:
        """Expect that the group has exactly these members, in any order."""
        listed = sorted(each.member_id for each in (await self.describe()).members)
        expect_equal("members", sorted(member_ids), listed)

    # Offsets

    def commit(
        self, member_id: str, epoch: int, *partitions: PartitionKey, offset: int = 1, version: int | None = None
    ) -> SentRequest[OffsetCommitResponse]:
        """Send one OffsetCommit with a member epoch, the same offset for all these partitions."""
        request = OffsetCommitRequest(
            group_id=self.story.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=offset_commit_topics(dict.fromkeys(partitions, offset), topic_ids=self._topic_ids),
        )
        version = MEMBER_EPOCH_COMMIT_VERSION if version is None else version
        return self.story.send(request, OffsetCommitResponse, version=version, sender=member_id or "client")

    async def fetch(
        self,
        member_id: str | None,
        epoch: int,
        *partitions: PartitionKey,
        all_topics: bool = False,
        require_stable: bool = False,
    ) -> tuple[int, dict[PartitionKey, int]]:
        """Send one OffsetFetch with a member epoch; return the error code of the group and the offsets."""
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
        asked = OffsetFetchRequestGroup(
            group_id=self.story.group_id,
            member_id=member_id,
            member_epoch=epoch,
            topics=None if all_topics else topics,
        )
        request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
        response = await self.story.send(
            request, OffsetFetchResponse, version=MEMBER_EPOCH_COMMIT_VERSION, sender=member_id or "client"
        )
        fetched = fetched_offsets(response)
        return group_error(response), {key: each.error or each.offset for key, each in fetched.items()}

    # Topics

    async def create_topic(self, name: str, partitions: int) -> str:
        """Create a topic of the story's own, and return its full name. The coordinator knows it when this returns."""
        topic = f"{self.story.group_id}-{name}"
        create = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        created = await self.story.send(CreateTopicsRequest(topics=[create]), CreateTopicsResponse)
        expect(created.topics[0], error=E.NONE)
        await self._wait_for_partitions(topic, partitions)
        return topic

    async def grow_topic(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic to `partitions` by CreatePartitions."""
        grown = CreatePartitionsTopic(name=topic, count=partitions)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=30_000)
        expect((await self.story.send(request, CreatePartitionsResponse)).results[0], error=E.NONE)
        await self._wait_for_partitions(topic, partitions)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic. The coordinator knows of it when this returns."""
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        response = await self.story.send(request, DeleteTopicsResponse, version=DELETE_TOPICS_BY_NAME_VERSION)
        expect(response.responses[0], error=E.NONE)
        await self._wait_for_partitions(topic, 0)

    async def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        async def check() -> None:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            response = await self.story.send(request, MetadataResponse, version=METADATA_VERSION, sender="observer")
            expect_equal(f"partitions of {topic}", partitions, len(response.topics[0].partitions))
            if partitions:
                self._own_topic_ids[topic] = response.topics[0].topic_id

        await self.story.wait_until(check)
        await self.story.sleep(APPLY_PAUSE_S)


def expect_answer(
    answer: HeartbeatAnswer,
    *,
    error: int = E.NONE,
    epoch: int | None = None,
    assignment: PartitionsByTopic | str | None = UNCHANGED,
) -> None:
    """Check the answer to a heartbeat; its epoch and its assignment only if they are given."""
    expect(answer.response, error=error)
    if epoch is not None:
        expect(answer.response, member_epoch=epoch)
    if not isinstance(assignment, str):
        expect_equal("assignment", None if assignment is None else dict(assignment), answer.assignment)


def described_partitions(assignment: DescribedAssignment) -> PartitionsByTopic:
    """An assignment in a ConsumerGroupDescribe response, by topic name."""
    return {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}
