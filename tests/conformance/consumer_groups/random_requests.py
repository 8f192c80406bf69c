"""Random requests about one group of the consumer protocol: what its members send, with mistakes among it.

Each request is sent to several brokers, and their answers are compared. A client believes the first one. All brokers
have the same topic ids, because the order of ids decides between equal assignments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import topics as t
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupTopicPartitions
from regroup.protocol.messages.group import LeaveGroupRequest, MemberIdentity
from tests.server.wire_client import WireClient

E = ErrorCode
Named = dict[str, list[int]]
"""Partitions by topic name."""

MEMBERS = ("m1", "m2", "m3", "m4", "m5")
REJOIN_AFTER = (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID)
ACTIONS = {
    "heartbeat": 40,
    "join": 14,
    "subscribe": 8,
    "mistake": 8,
    "leave": 5,
    "away": 5,
    "commit": 6,
    "fetch": 4,
    "describe": 4,
    "leave-group": 2,
    "list": 2,
    "delete": 1,
}


@dataclass
class Member:
    """What a member has learnt from its responses."""

    instance_id: str | None
    epoch: int = 0
    owned: Named = field(default_factory=dict)
    previous: tuple[int, Named] = (0, {})


@dataclass(frozen=True)
class Difference:
    """A request that two brokers answer differently."""

    step: int
    request: str
    answers: list[Any]


class Course:
    """Requests about one group with two topics, chosen by a seed."""

    def __init__(self, seed: int, name: str, topic_ids: dict[str, bytes]) -> None:
        self._random = Random(seed)
        self._group = f"group-{name}"
        self._topics = list(topic_ids)
        self._ids = topic_ids
        self._names = {topic_id: topic for topic, topic_id in topic_ids.items()}
        instances = (None, None, "i1", "i2")
        self._members = {each: Member(self._random.choice(instances)) for each in MEMBERS}

    async def play(self, clients: Sequence[WireClient], steps: int) -> Difference | None:
        """Send as many requests to all brokers; the first difference, if there is one."""
        for step in range(steps):
            [action] = self._random.choices(list(ACTIONS), list(ACTIONS.values()))
            member_id = self._random.choice(MEMBERS)
            request, version = self._request(action, member_id)
            answers = [self._comparable(await client.call(request, version)) for client in clients]
            if any(answer != answers[0] for answer in answers):
                return Difference(step, repr(request), answers)
            if isinstance(request, ConsumerGroupHeartbeatRequest):
                self._learn(self._members[member_id], request.member_epoch, answers[0])
        return None

    def _learn(self, member: Member, sent_epoch: int, answer: Any) -> None:
        """A response is lost now and then, and a member that is fenced does not always begin again at once."""
        code, _, epoch, _, assignment = answer
        if code == E.NONE and sent_epoch >= 0:
            if self._random.random() > 0.1:
                member.previous = member.epoch, member.owned
                member.epoch = epoch
                member.owned = member.owned if assignment is None else assignment
        elif (code in REJOIN_AFTER or sent_epoch < 0) and self._random.random() < 0.7:
            member.epoch, member.owned = 0, {}

    # Requests

    def _request(self, action: str, member_id: str) -> tuple[Any, int]:
        if action == "commit":
            return self._commit(member_id)
        if action == "fetch":
            return self._fetch(member_id)
        if action == "describe":
            return d.ConsumerGroupDescribeRequest(group_ids=[self._group]), 1
        if action == "list":
            return d.ListGroupsRequest(), 5
        if action == "delete":
            return d.DeleteGroupsRequest(groups_names=[self._group]), 2
        if action == "leave-group":
            named = [self._random.choice([MEMBERS[0], member_id, "zz"]) for _ in range(2)]
            leaving = [MemberIdentity(member_id=each) for each in named]
            return LeaveGroupRequest(group_id=self._group, members=leaving), 5
        return self._heartbeat(action, member_id), 1

    def _heartbeat(self, action: str, member_id: str) -> ConsumerGroupHeartbeatRequest:
        random, member = self._random, self._members[member_id]
        fields: dict[str, Any] = {"instance_id": member.instance_id}
        owned: Named | None = random.choice([member.owned, member.owned, None])
        epoch = member.epoch
        if action == "join" or (action == "heartbeat" and not member.epoch):
            epoch, owned = 0, {}
            fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": self._subscription()}
            fields["server_assignor"] = random.choice([None, None, None, "range", "uniform"])
        elif action == "subscribe":
            fields["subscribed_topic_names"] = self._subscription()
            fields["server_assignor"] = random.choice([None, None, "range", "uniform"])
        elif action == "mistake":
            previous_epoch, previously_owned = member.previous
            epoch = random.choice([previous_epoch, previous_epoch, epoch - 1, epoch + 1, 99, 1, -3])
            owned = random.choice([None, previously_owned, {self._topics[0]: [0, 1]}, member.owned])
            fields["instance_id"] = random.choice([member.instance_id, None, "i1", "i9"])
        elif action in ("leave", "away"):
            epoch, owned = (-1 if action == "leave" else -2), None
            fields["instance_id"] = random.choice([member.instance_id, member.instance_id, None])
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupTopicPartitions(topic_id=self._ids[topic], partitions=indexes)
                for topic, indexes in owned.items()
            ],
            **fields,
        )

    def _subscription(self) -> list[str]:
        first, second = self._topics
        return self._random.choice([[first], [first], [first, second], [second], [second, "missing"], []])

    def _epoch_near(self, member_id: str) -> int:
        epoch = self._members[member_id].epoch
        return self._random.choice([epoch, epoch, epoch - 1, epoch + 1, -1])

    def _commit(self, member_id: str) -> tuple[o.OffsetCommitRequest, int]:
        version = self._random.choice([8, 9, 9, 10])
        topic = self._random.choice(self._topics)
        indexes = sorted({self._random.randrange(3) for _ in range(2)})
        committed = o.OffsetCommitRequestTopic(
            name=topic if version < 10 else "",
            topic_id=self._ids[topic] if version >= 10 else NO_UUID,
            partitions=[o.OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in indexes],
        )
        request = o.OffsetCommitRequest(
            group_id=self._group,
            member_id=self._random.choice([member_id, member_id, "zz", ""]),
            generation_id_or_member_epoch=self._epoch_near(member_id),
            topics=[committed],
        )
        return request, version

    def _fetch(self, member_id: str) -> tuple[o.OffsetFetchRequest, int]:
        wanted = o.OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._random.choice([member_id, member_id, "zz", None]),
            member_epoch=self._epoch_near(member_id),
            topics=None,
        )
        return o.OffsetFetchRequest(groups=[wanted]), 9

    # Answers

    def _named(self, partitions: Any) -> Named:
        return {self._names.get(each.topic_id, "unknown"): sorted(each.partitions) for each in partitions}

    def _comparable(self, response: Any) -> Any:
        """What two brokers must answer alike: no texts, and nothing that they iterate in another order."""
        match type(response).__name__:
            case "ConsumerGroupHeartbeatResponse":
                given = response.assignment
                assignment = None if given is None else self._named(given.topic_partitions)
                interval_ms = response.heartbeat_interval_ms
                return response.error_code, response.member_id, response.member_epoch, interval_ms, assignment
            case "ConsumerGroupDescribeResponse":
                return [self._described(each) for each in response.groups]
            case "ListGroupsResponse":
                own = [each for each in response.groups if each.group_id == self._group]
                return [(each.protocol_type, each.group_state, each.group_type) for each in own]
            case "DeleteGroupsResponse":
                return [each.error_code for each in response.results]
            case "LeaveGroupResponse":
                return response.error_code, [(each.member_id, each.error_code) for each in response.members]
            case "OffsetCommitResponse":
                return [
                    (each.name, each.topic_id, [(it.partition_index, it.error_code) for it in each.partitions])
                    for each in response.topics
                ]
            case _:
                [group] = response.groups
                offsets = {
                    (each.name, it.partition_index): it.committed_offset
                    for each in group.topics
                    for it in each.partitions
                }
                return group.error_code, offsets

    def _described(self, group: d.DescribedConsumerGroup) -> Any:
        members = {
            each.member_id: (
                each.instance_id,
                each.member_epoch,
                sorted(each.subscribed_topic_names),
                each.subscribed_topic_regex,
                self._named(each.assignment.topic_partitions),
                self._named(each.target_assignment.topic_partitions),
                each.member_type,
            )
            for each in group.members
        }
        epochs = group.group_epoch, group.assignment_epoch
        return group.error_code, group.group_state, epochs, group.assignor_name, members


async def create_topic(client: WireClient, name: str, partitions: int) -> bytes:
    """Create a topic; returns its id."""
    topic = t.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response: Any = await client.call(t.CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == E.NONE
    return bytes(response.topics[0].topic_id)
