"""FindCoordinator, ApiVersions and DescribeCluster."""

from collections.abc import Iterator

from regroup.protocol.messages import cluster as c
from tests.robustness.expensive.requests import Row


def cluster_requests() -> Iterator[Row]:
    yield (
        "FindCoordinator, many keys",
        4,
        lambda n: c.FindCoordinatorRequest(key_type=0, coordinator_keys=[f"{i:x}" for i in range(n)]),
    )
    yield (
        "FindCoordinator, long keys",
        4,
        c.FindCoordinatorRequest(key_type=0, coordinator_keys=["k" * 32_000 + str(i) for i in range(3)]),
    )
    yield (
        "ApiVersions, long names",
        3,
        c.ApiVersionsRequest(client_software_name="a" * 32_000 + "-", client_software_version="1"),
    )
    yield "DescribeCluster", 1, c.DescribeClusterRequest()
