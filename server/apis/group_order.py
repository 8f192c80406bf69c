"""The order of groups in Kafka's responses about several groups: by their partitions of `__consumer_offsets`.

Kafka collects the groups of each partition in a hash map, and the partitions have its order.
"""

from collections.abc import Callable, Iterable

from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.protocol.java_order import in_hash_map_order, java_partition_hash


def in_order_of_partitions(group_ids: Iterable[str], partition_of: Callable[[str], int]) -> list[str]:
    """The group ids in the order of Kafka's DescribeGroups response: groups of the same partition stand together, and
    among themselves keep the order of the request. Repeated ids stay."""
    return [group_id for groups in _by_partition(group_ids, partition_of) for group_id in groups]


def distinct_in_order_of_partitions(
    group_ids: Iterable[str], partition_of: Callable[[str], int], hash_code: Callable[[str], int]
) -> list[str]:
    """The group ids in the order of Kafka's DeleteGroups response: groups of the same partition stand together, in the
    order of a Java hash set. Repeated ids are dropped."""
    by_partition = _by_partition(group_ids, partition_of)
    return [group_id for groups in by_partition for group_id in in_hash_map_order(dict.fromkeys(groups), hash_code)]


def _by_partition(group_ids: Iterable[str], partition_of: Callable[[str], int]) -> list[list[str]]:
    groups: dict[tuple[str, int], list[str]] = {}
    for group_id in group_ids:
        groups.setdefault((OFFSETS_TOPIC, partition_of(group_id)), []).append(group_id)
    return [groups[partition] for partition in in_hash_map_order(groups, java_partition_hash)]
