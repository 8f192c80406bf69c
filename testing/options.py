"""What an emulator is started with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting
from regroup.server.cluster.image import topic_name_error
from regroup.server.settings import BrokerSettings, format_setting, settings_from_texts

ClockKind: TypeAlias = Literal["real", "manual"]
StorePath: TypeAlias = str | os.PathLike[str]
SettingValues: TypeAlias = Mapping[str, str | int | bool]
"""Settings by their Kafka names, such as `group.min.session.timeout.ms`."""

DEFAULT_WAIT_TIMEOUT_S: Final = 10.0
MAX_BROKERS: Final = 100
RECORD_MAX_BYTES: Final = 256 * 1024 * 1024
"""How much of the file `store` the recorded exchanges may take, compressed."""
SETTINGS_FOR_TESTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "auto.create.topics.enable": "false",
}
"""Where tests want other values than Apache Kafka's defaults: nothing waits, and a misspelt topic is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """The arguments of `Emulator`."""

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
        """The settings for tests, changed by those that were given. Raises UnknownSetting or InvalidSetting."""
        texts = {**SETTINGS_FOR_TESTS, "auto.create.topics.enable": format_setting(self.create_topics)}
        return settings_from_texts(texts | {name: format_setting(value) for name, value in self.settings.items()})


def check_partitions(partitions: int) -> None:
    """Raise InvalidSetting for a number of partitions that no topic can have."""
    if not 1 <= partitions <= 10_000:
        raise InvalidSetting(f"a topic has 1 to 10000 partitions, not {partitions}")
