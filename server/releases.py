"""What released versions of Apache Kafka serve: API versions, from kafka_releases.json beside this file."""

from functools import cache
from pathlib import Path

import msgspec

from regroup.coordinator.settings import InvalidSetting
from regroup.protocol.fields import Versions

__all__ = ["ANY_RELEASE", "Release", "newest_release", "release_named"]

TABLE = Path(__file__).with_name("kafka_releases.json")
ANY_RELEASE = "any"
"""In place of a release: every version that the codec knows, the oldest ones too, which no one release serves."""


class Release(msgspec.Struct, frozen=True):
    """A release of Apache Kafka, as far as its clients can tell it from another."""

    jars: str
    """The exact version that the rest was read from."""
    transaction_version: int
    """The level of the feature `transaction.version` in a new cluster: 2 is KIP-890, 0 none at all."""
    apis: dict[int, tuple[int, int]]
    """First and last version of each API in its ApiVersions response, by API key."""
    refused_below: dict[int, int] = {}
    """First version that is really served, by API key, where ApiVersions begins earlier (KAFKA-18659)."""

    @property
    def name(self) -> str:
        """The short name, `2.8`."""
        return self.jars.rpartition(".")[0]

    @property
    def group_version(self) -> int:
        """The level of the feature `group.version` in a new cluster: 1 is the consumer protocol (KIP-848), since 4.0.

        Earlier releases had previews of it, which differ.
        """
        return int(int(self.name.partition(".")[0]) >= 4)

    def limit(self, key: int, versions: Versions) -> Versions | None:
        """What this release advertises of these versions of an API; None if that is nothing."""
        first, last = self.apis.get(key, (0, -1))
        common = Versions(max(first, versions.first), min(last, versions.last))
        return common if common.first <= common.last else None

    def refuses(self, key: int, version: int) -> bool:
        """Whether this version is advertised, and refused all the same."""
        return version < self.refused_below.get(key, 0)


class _Table(msgspec.Struct, frozen=True):
    source: str
    releases: dict[str, Release]


@cache
def releases() -> dict[str, Release]:
    """Every known release by its short name, `2.8`, the oldest first."""
    return msgspec.json.decode(TABLE.read_bytes(), type=_Table).releases


def newest_release() -> Release:
    """The release that is emulated unless another one is named."""
    *_, newest = releases().values()
    return newest


def release_named(name: str) -> Release:
    """A release by its short name. Raises InvalidSetting, which says what is known."""
    known = releases()
    if name not in known:
        raise InvalidSetting(
            f"There is no table for Apache Kafka {name!r}. Known are: {', '.join(known)}; "
            f"and {ANY_RELEASE!r} for all versions."
        )
    return known[name]
