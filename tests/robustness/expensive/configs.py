"""Requests that describe and change settings."""

from collections.abc import Iterator
from itertools import cycle, islice

from regroup.protocol.messages import topics as p
from tests.robustness.expensive.requests import Row
from tests.robustness.expensive.world import SMALL_TOPICS, WIDE

TOPIC, BROKER = 2, 4
"""Types of resources."""


def descriptions() -> Iterator[Row]:
    for what, kind, resource_names in (
        ("one topic many times", TOPIC, [WIDE]),
        ("many topics", TOPIC, SMALL_TOPICS),
        ("the broker many times", BROKER, ["0"]),
    ):
        yield (
            f"DescribeConfigs, {what}",
            4,
            lambda n, kind=kind, names=resource_names: p.DescribeConfigsRequest(
                resources=[
                    p.DescribeConfigsResource(resource_type=kind, resource_name=name)
                    for name in islice(cycle(names), n)
                ],
                include_synonyms=True,
            ),
        )
    yield (
        "DescribeConfigs, many keys",
        4,
        lambda n: p.DescribeConfigsRequest(
            resources=[p.DescribeConfigsResource(resource_type=TOPIC, resource_name=WIDE, configuration_keys=["?"] * n)]
        ),
    )


def changes() -> Iterator[Row]:
    def alter(names: list[str], key: str, value: str) -> p.AlterConfigsRequest:
        entries = [p.AlterConfigsEntry(name=key, value=value)]
        resources = [p.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=entries) for name in names]
        return p.AlterConfigsRequest(resources=resources)

    yield "AlterConfigs, many topics", 2, lambda n: alter(list(islice(cycle(SMALL_TOPICS), n)), "segment.ms", "7")
    yield "AlterConfigs, one topic many times", 2, lambda n: alter([WIDE] * n, "segment.ms", "7")
    yield "AlterConfigs, unknown settings", 2, lambda n: alter([*SMALL_TOPICS[:n]], "segment.msx", "7")


def incremental_changes() -> Iterator[Row]:
    def incremental(name: str, entries: list[tuple[str, int, str]]) -> p.IncrementalAlterConfigsRequest:
        configs = [
            p.IncrementalAlterConfigsEntry(name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        ]
        resource = p.IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        return p.IncrementalAlterConfigsRequest(resources=[resource])

    listed = ",".join(f"{i:x}" for i in range(6_000))
    yield (
        "IncrementalAlterConfigs, long lists",
        1,
        incremental(WIDE, [("cleanup.policy", 2, listed), ("leader.replication.throttled.replicas", 2, listed)]),
    )
    yield (
        "IncrementalAlterConfigs, one list many times",
        1,
        lambda n: incremental(WIDE, [("cleanup.policy", 2, "compact,delete")] * n),
    )
    yield (
        "IncrementalAlterConfigs, long unknown names",
        1,
        incremental(WIDE, [("x" * 32_000 + str(i), 0, "") for i in range(3)]),
    )


def config_requests() -> Iterator[Row]:
    """Every request about settings."""
    yield from descriptions()
    yield from changes()
    yield from incremental_changes()
