"""Exchanges about brokers and topics."""

from typing import Any

import msgspec

from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import topics as t
from tests.conformance.same_answers.probe import UNKNOWN_ID, Exchange, Probe, presence


async def other_brokers(probe: Probe) -> Any:
    """ApiVersions v5 with ids that are this broker's, another's, or incomplete; and the versions that are served."""
    names = {"client_software_name": "test", "client_software_version": "1"}
    cluster_id = (await probe.call(c.DescribeClusterRequest())).cluster_id
    node_id = (await probe.call(c.MetadataRequest(topics=[]))).brokers[0].node_id
    found = []
    for named in (cluster_id, "other", "", None):
        for node in (node_id, 99, -1, -2):
            response = await probe.call(c.ApiVersionsRequest(**names, cluster_id=named, node_id=node), 5)
            found.append((response.error_code, bool(response.api_keys), bool(response.finalized_features)))
    return found


async def repeated_names(probe: Probe) -> Any:
    """A topic, a resource or a setting that is named twice in a request that changes it."""
    entry = t.IncrementalAlterConfigsEntry(name="retention.ms", config_operation=0, value="5")
    changes = [[entry], [entry, entry], [msgspec.structs.replace(entry, value=None)]]
    found = []
    for configs in changes:
        resource = t.IncrementalAlterConfigsResource(resource_type=2, resource_name=probe.name("foo"), configs=configs)
        for resources in ([resource], [resource, resource]):
            response = await probe.call(t.IncrementalAlterConfigsRequest(resources=resources))
            found.append([each.error_code for each in response.responses])
    for version in (1, 5, 6):
        names = [probe.name("foo"), probe.name("foo"), probe.name("nope")]
        request = t.DeleteTopicsRequest(
            topics=[t.DeleteTopicState(name=name) for name in names] if version >= 6 else [],
            topic_names=names if version < 6 else [],
            timeout_ms=1000,
        )
        response = await probe.call(request, version)
        found.append(sorted(each.error_code for each in response.responses))
    return found


async def topics_of_metadata(probe: Probe) -> Any:
    found = []
    for version in (4, 9, 12):
        names = [probe.name(name) for name in ("foo", "nope", "foo", "nope")]
        request = c.MetadataRequest(
            topics=[c.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        response = await probe.call(request, version)
        found.append([(each.name.partition("-")[0], each.error_code) for each in response.topics])
    ids = [UNKNOWN_ID, probe.ids["foo"], b"\x08" * 16, probe.ids["bar"], probe.ids["foo"]]
    request = c.MetadataRequest(topics=[c.MetadataRequestTopic(name=None, topic_id=each) for each in ids])
    response = await probe.call(request, 12)
    found.append([((each.name or "").partition("-")[0], each.error_code) for each in response.topics])
    return found


async def endpoints(probe: Probe) -> Any:
    found = []
    for version in (1, 2):
        for endpoint_type in (1, 2, 3):
            response = await probe.call(c.DescribeClusterRequest(endpoint_type=endpoint_type), version)
            ids = (response.controller_id >= 0, bool(response.cluster_id), len(response.brokers))
            found.append((response.error_code, presence(response.error_message), response.endpoint_type, ids))
    return found


EXCHANGES: list[Exchange] = [other_brokers, repeated_names, topics_of_metadata, endpoints]
