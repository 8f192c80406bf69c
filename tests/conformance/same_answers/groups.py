"""Exchanges about groups, their members and their coordinators."""

from collections.abc import Sequence
from typing import Any

import msgspec

from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import topics as t
from tests.conformance.same_answers.entries import codes, commit
from tests.conformance.same_answers.probe import Exchange, Probe, presence


async def groups_by_partition(probe: Probe) -> Any:
    names = [f"{letter}zz9911" for letter in "zbqacmkydefw"] + ["", "nopezz9911"]
    await probe.coordinator(names[0])
    described = await probe.call(d.DescribeGroupsRequest(groups=[*names, names[2]]), 5)
    found = [[each.group_id for each in described.groups]]
    for version in range(4):
        deleted = await probe.call(d.DeleteGroupsRequest(groups_names=[*names, names[2]]), version)
        found.append([(each.group_id, each.error_code, each.error_message) for each in deleted.results])
    return found


async def the_group_with_the_empty_id(probe: Probe) -> Any:
    await probe.coordinator("")
    await probe.call(d.DeleteGroupsRequest(groups_names=[""]))
    found = [codes(probe, await probe.call(commit(probe, "", [("foo", [0])]), 9))]
    for _ in range(2):
        described = await probe.call(d.DescribeGroupsRequest(groups=[""], include_authorized_operations=True), 6)
        deleted = await probe.call(d.DeleteGroupsRequest(groups_names=["", ""]))
        found += [described.groups[0].error_code, described.groups[0].authorized_operations]
        found += [described.groups[0].group_state, [each.error_code for each in deleted.results]]
    return found


async def coordinators(probe: Probe) -> Any:
    for key_type in (0, 1):
        await probe.coordinator("a", key_type)
    found = []
    for version in range(7):
        for key_type in (0, 1, 2, 3, -1) if version else (0,):
            keys = {"coordinator_keys": ["a", "a"]} if version >= 4 else {"key": "a"}
            request = c.FindCoordinatorRequest(**keys, key_type=key_type)
            send = lambda request=request, version=version: probe.call(request, version)  # noqa: E731
            for each in [await send()] if version < 4 else (await send()).coordinators:
                found.append((version, key_type, each.error_code, presence(each.error_message), each.node_id >= 0))
    return found


def join(probe: Probe, group: str, names: Sequence[str], metadata: bytes = b"", **fields: Any) -> g.JoinGroupRequest:
    return g.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[g.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        **fields,
    )


async def names_of_assignors(probe: Probe) -> Any:
    found = []
    for number, names in enumerate((["a", "b", "a"], ["a", "a", "b"], [""], ["", "a"], [])):
        for version in (3, 6, 7, 9):
            group = await probe.group(f"names-{number}-{version}")
            fields = {} if version < 5 else {"group_instance_id": "i"}
            joined = await probe.call(join(probe, group, names, **fields), version)
            found.append((joined.error_code, joined.protocol_name, joined.generation_id))
            for name in (None, "", "a", "b"):
                sync = g.SyncGroupRequest(
                    group_id=group,
                    generation_id=1,
                    member_id=joined.member_id,
                    protocol_type="consumer",
                    protocol_name=name,
                )
                synced = await probe.call(sync, 5)
                found.append((name, synced.error_code, synced.protocol_name))
    return found


async def versions_of_subscriptions(probe: Probe) -> Any:
    subscription, found = encode_subscription(Subscription(1, (probe.name("bar"),))), []
    for number, version in enumerate((-32768, -5, -1, 0, 3, 99)):
        group = await probe.group(f"versions-{number}")
        metadata = version.to_bytes(2, "big", signed=True) + subscription[2:]
        await probe.call(join(probe, group, ["range"], metadata), 3)
        topics = [
            o.OffsetDeleteRequestTopic(
                name=probe.name(name), partitions=[o.OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("foo", "bar")
        ]
        found.append(codes(probe, await probe.call(o.OffsetDeleteRequest(group_id=group, topics=topics))))
    return found


async def member_ids(probe: Probe) -> Any:
    found = []
    for instance_id in ("", "i", None):
        group = await probe.group(f"ids-{instance_id}")
        joined = await probe.call(join(probe, group, ["range"], group_instance_id=instance_id), 5)
        found.append(joined.member_id[:-36])
    return found


async def group_configs(probe: Probe) -> Any:
    found = []
    for version in (1, 4):
        for name in (await probe.group(), ""):
            resource = t.DescribeConfigsResource(resource_type=32, resource_name=name)
            request = t.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
            (result,) = (await probe.call(request, version)).results
            found.append((result.error_code, presence(result.error_message), msgspec.to_builtins(result.configs)))
    return found


EXCHANGES: list[Exchange] = [
    groups_by_partition,
    the_group_with_the_empty_id,
    coordinators,
    names_of_assignors,
    versions_of_subscriptions,
    member_ids,
    group_configs,
]
