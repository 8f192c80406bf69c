"""The brokers of `regroup serve` as its prompt uses them, and the plain ones, which no test kit stands behind."""

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
    """What the prompt acts on."""

    @property
    def addresses(self) -> list[tuple[str, int]]: ...

    @property
    def faults(self) -> "FaultRules": ...

    async def stop_broker(self, node_id: int) -> None: ...

    async def start_broker(self, node_id: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `regroup serve` starts, checked."""

    cluster: ClusterOptions
    open_store: StoreFactory
    reopen_store: StoreFactory
    topics: tuple[tuple[str, int], ...]
    mqtt: ServeMqttOptions | None


class PlainBrokers:
    """Brokers without the test kit. Their requests pass no gate before the first fault rule."""

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
    """Run the brokers until the end of the block. Raises StoreError, InvalidSetting, or OSError for a taken port."""
    cluster = await BrokerCluster.start(options.open_store, options.cluster, reopen_store=options.reopen_store)
    try:
        for name, partitions in options.topics:
            await cluster.ensure_topic(name, partitions)
        async with serve_over_mqtt(options.mqtt, cluster):
            yield PlainBrokers(cluster)
    finally:
        await cluster.close()
