"""The options with which an emulator is started: topics, settings, store, clock, and services that run beside the
brokers.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from regroup.coordinator.runtime.logger import LogSink
from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions, StoreFactory
from regroup.server.cluster.image import topic_name_error
from regroup.server.settings import BrokerSettings, format_setting, settings_from_texts
from regroup.testing.logs import write_to_logging

ClockKind: TypeAlias = Literal["real", "manual"]
StorePath: TypeAlias = str | os.PathLike[str]
SettingValues: TypeAlias = Mapping[str, str | int | bool]
"""Broker and group settings by their Kafka names, such as `group.min.session.timeout.ms`."""

DEFAULT_WAIT_TIMEOUT_S: Final = 10.0
MAX_BROKERS: Final = 100
RECORD_MAX_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of the file `store` that recorded exchanges may take, compressed."""
SETTINGS_FOR_TESTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
"""Settings whose values for tests differ from Apache Kafka's defaults: no wait for more members or for the next target,
short heartbeat intervals where the broker chooses them, any session timeout, and no topic is created by a misspelt
name."""


ServiceOfBrokers: TypeAlias = Callable[[BrokerCluster], AbstractAsyncContextManager[None]]
"""A context manager that runs something beside the brokers, from their start to their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """What the brokers of an emulator are started with, for a test or for `regroup serve`.

    `topics` are created at every first start if they are missing. The `services` run with the brokers: they end before
    a kill and begin again with the restart. Without a `log` the lines go where the process has sent them.
    """

    cluster: ClusterOptions
    open_store: StoreFactory | None = None
    """Opens the store at the start and at each restart; None for a store in memory."""
    reopen_store: StoreFactory | None = None
    """Opens the store again after it has failed."""
    topics: tuple[tuple[str, int], ...] = ()
    services: tuple[ServiceOfBrokers, ...] = ()
    clock: ClockKind = "real"
    wait_timeout_s: float = DEFAULT_WAIT_TIMEOUT_S
    record: bool = True
    log: LogSink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """The arguments of `Emulator`, as a value."""

    topics: Mapping[str, int] = field(default_factory=dict)
    brokers: int = 1
    settings: SettingValues = field(default_factory=dict)
    store: Path | None = None
    clock: ClockKind = "real"
    create_topics: bool = False
    wait_timeout_s: float = DEFAULT_WAIT_TIMEOUT_S
    record: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.brokers <= MAX_BROKERS:
            raise ValueError(f"invalid number of brokers: {self.brokers}; give 1 to {MAX_BROKERS}")
        if self.clock not in ("real", "manual"):
            raise ValueError(f"invalid clock: {self.clock!r}; it is 'real' or 'manual'")
        for name, partitions in self.topics.items():
            if error := topic_name_error(name, self.topics):
                raise InvalidSetting(error)
            check_partitions(partitions)
        self.cluster_settings()

    def cluster_settings(self) -> tuple[CoordinatorSettings, BrokerSettings]:
        """The settings of coordinator and brokers: the defaults for tests, with those that the test has given in their
        place.

        Raises UnknownSetting or InvalidSetting.
        """
        texts = {**SETTINGS_FOR_TESTS, "auto.create.topics.enable": format_setting(self.create_topics)}
        return settings_from_texts(texts | {name: format_setting(value) for name, value in self.settings.items()})

    def process_options(self) -> ProcessOptions:
        """The options that start the brokers: on free ports of this machine, with their log in `logging`."""
        settings, broker_settings = self.cluster_settings()
        # Otherwise the first client that asks for a coordinator creates it, is refused, and asks again later.
        offsets_topic = (OFFSETS_TOPIC, settings.offsets_topic_num_partitions)
        return ProcessOptions(
            cluster=ClusterOptions(
                settings=settings,
                broker_settings=broker_settings,
                brokers=self.brokers,
                snapshot_interval_records=0,
                record_max_bytes=RECORD_MAX_BYTES if self.record and self.store is not None else 0,
            ),
            open_store=self._store_factory(),
            topics=(offsets_topic, *self.topics.items()),
            clock=self.clock,
            wait_timeout_s=self.wait_timeout_s,
            record=self.record,
            log=write_to_logging,
        )

    def _store_factory(self) -> StoreFactory | None:
        if self.store is None:
            return None
        from regroup.storage.sqlite.threaded import open_store  # noqa: PLC0415  # most tests need no file

        return partial(open_store, self.store, durability="process")


def check_partitions(partitions: int) -> None:
    """Raise InvalidSetting for a number of partitions that no topic can have."""
    if not 1 <= partitions <= 10_000:
        raise InvalidSetting(f"a topic has 1 to 10000 partitions, not {partitions}")
