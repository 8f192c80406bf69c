"""The brokers of `regroup serve`: what its prompt can do with them, and the brokers that run without a control port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from regroup.cli.serve.mqtt import ServeMqttOptions, serve_over_mqtt
from regroup.cli.terminal.arguments import load
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions, StoreFactory

if TYPE_CHECKING:
    from regroup.server.faults.gate import FaultRules


class ServedBrokers(Protocol):
    """The operations that the prompt needs of brokers, with or without a control port."""

    @property
    def addresses(self) -> list[tuple[str, int]]: ...

    @property
    def faults(self) -> "FaultRules": ...

    async def stop_broker(self, node_id: int) -> None: ...

    async def start_broker(self, node_id: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The checked options with which `regroup serve` starts."""

    cluster: ClusterOptions
    open_store: StoreFactory
    reopen_store: StoreFactory
    topics: tuple[tuple[str, int], ...]
    mqtt: ServeMqttOptions | None


class PlainBrokers:
    """The brokers of a `regroup serve` without --control and --page.

    Until the first fault rule is added, requests are not checked for such rules.
    """

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self.stop_broker, self.start_broker = cluster.stop_broker, cluster.start_broker

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return self._cluster.addresses

    @cached_property
    def faults(self) -> "FaultRules":
        rules: FaultRules = load("regroup.cli.serve.faults:rules_with_gates")(self._cluster)
        return rules


@asynccontextmanager
async def plain_brokers(options: ServeOptions) -> AsyncIterator[ServedBrokers]:
    """Run the brokers within the `async with` block. Raises StoreError, InvalidSetting, or OSError if a port is in
    use."""
    cluster = await BrokerCluster.start(options.open_store, options.cluster, reopen_store=options.reopen_store)
    try:
        for name, partitions in options.topics:
            await cluster.ensure_topic(name, partitions)
        async with serve_over_mqtt(options.mqtt, cluster):
            yield PlainBrokers(cluster)
    finally:
        await cluster.close()
