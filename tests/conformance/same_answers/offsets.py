"""Exchanges about the offsets of a group: committed, fetched and deleted."""

from typing import Any

from regroup.protocol.messages import offsets as o
from tests.conformance.same_answers.entries import ENTRIES, codes, commit
from tests.conformance.same_answers.probe import Exchange, Probe


async def commits(probe: Probe) -> Any:
    group, found = await probe.group(), []
    for entries in ENTRIES:
        for version in (2, 9, 10):
            request = commit(probe, group, entries, by_id=version >= 10)
            found.append(codes(probe, await probe.call(request, version), by_id=version >= 10))
        refused = commit(probe, probe.name("new"), entries, member_id="m", generation_id_or_member_epoch=3)
        found += [codes(probe, await probe.call(refused, version)) for version in (8, 9)]
    return found


async def deletes_of_offsets(probe: Probe) -> Any:
    group, found = await probe.group(), []
    for entries in ENTRIES:
        await probe.call(commit(probe, group, [("foo", [0, 1, 2]), ("bar", [0, 1])]), 9)
        topics = [
            o.OffsetDeleteRequestTopic(
                **probe.topic(name, by_id=False),
                partitions=[o.OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in entries
        ]
        for each in (group, probe.name("new")):
            response = await probe.call(o.OffsetDeleteRequest(group_id=each, topics=topics))
            found.append((response.error_code, codes(probe, response)))
        fetch = o.OffsetFetchRequestGroup(group_id=group, topics=None)
        left = (await probe.call(o.OffsetFetchRequest(groups=[fetch]), 9)).groups[0].topics
        found.append(
            sorted((probe.topic_of(e, by_id=False), sorted(p.partition_index for p in e.partitions)) for e in left)
        )
    return found


async def fetches_of_offsets(probe: Probe) -> Any:
    group, found = await probe.group(), []
    await probe.call(commit(probe, group, [("foo", [0, 1])]), 9)
    for entries in ENTRIES:
        for version in (1, 7, 9, 10):
            by_id = version >= 10
            if version < 8:
                old = [
                    o.OffsetFetchRequestTopic(**probe.topic(name, by_id=False), partition_indexes=indexes)
                    for name, indexes in entries
                ]
                response = await probe.call(o.OffsetFetchRequest(group_id=group, topics=old), version)
            else:
                asked = [
                    o.OffsetFetchRequestTopics(**probe.topic(name, by_id=by_id), partition_indexes=indexes)
                    for name, indexes in entries
                ]
                wanted = o.OffsetFetchRequestGroup(group_id=group, topics=asked)
                response = (await probe.call(o.OffsetFetchRequest(groups=[wanted]), version)).groups[0]
            offsets = [[each.committed_offset for each in topic.partitions] for topic in response.topics]
            found.append((codes(probe, response, by_id=by_id), offsets))
    return found


EXCHANGES: list[Exchange] = [commits, deletes_of_offsets, fetches_of_offsets]
