"""Lists of topics and partitions, in every order and with every mistake, and commits of them."""

from collections.abc import Sequence
from typing import Any

from regroup.protocol.messages import offsets as o
from tests.conformance.same_answers.probe import Probe

Named = Sequence[tuple[str, list[int]]]
ENTRIES: list[Named] = [
    [("foo", [0, 9, 1]), ("zero", [0]), ("absent", [0, 1])],
    [("foo", [-1, 0])],
    [("foo", []), ("bar", [0]), ("absent", [])],
    [("foo", [])],
    [("absent", [])],
    [],
    [("foo", [0]), ("bar", [0]), ("foo", [1])],
    [("foo", [0, 9]), ("bar", [7, 0]), ("foo", [1, 8])],
    [("foo", [0]), ("absent", [0]), ("bar", [9, 1]), ("foo", [2]), ("absent", [1])],
    [("foo", [0, 0, 9, 9])],
]


def codes(probe: Probe, response: Any, *, by_id: bool = False) -> Any:
    return [
        (probe.topic_of(topic, by_id=by_id), [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


def commit(probe: Probe, group: str, entries: Named, *, by_id: bool = False, **fields: Any) -> o.OffsetCommitRequest:
    topics = [
        o.OffsetCommitRequestTopic(
            **probe.topic(name, by_id=by_id),
            partitions=[o.OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes],
        )
        for name, indexes in entries
    ]
    return o.OffsetCommitRequest(group_id=group, topics=topics, **fields)
