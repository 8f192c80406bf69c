"""What released versions of Apache Kafka serve: API versions, from kafka_releases.json beside this file."""

from functools import cache
from pathlib import Path

import msgspec

from regroup.coordinator.settings import InvalidSetting
from regroup.protocol.fields import Versions

__all__ = ["Release", "release_named"]

TABLE = Path(__file__).with_name("kafka_releases.json")


class Release(msgspec.Struct, frozen=True):
    """A release of Apache Kafka, as far as its clients can tell it from another."""

    jars: str
    """The exact version that the rest was read from."""
    transaction_version: int
    """The level of the feature `transaction.version` in a new cluster: 2 is KIP-890, 0 none at all."""
    apis: dict[int, tuple[int, int]]
    """First and last version of each API, by API key."""

    def limit(self, key: int, versions: Versions) -> Versions | None:
        """What this release serves of these versions of an API; None if that is nothing."""
        first, last = self.apis.get(key, (0, -1))
        common = Versions(max(first, versions.first), min(last, versions.last))
        return common if common.first <= common.last else None


class _Table(msgspec.Struct, frozen=True):
    source: str
    releases: dict[str, Release]


@cache
def releases() -> dict[str, Release]:
    """Every known release by its short name, `2.8`, the oldest first."""
    return msgspec.json.decode(TABLE.read_bytes(), type=_Table).releases


def release_named(name: str) -> Release:
    """A release by its short name. Raises InvalidSetting, which says what is known."""
    known = releases()
    if name not in known:
        raise InvalidSetting(f"There is no table for Apache Kafka {name!r}. Known are: {', '.join(known)}.")
    return known[name]
