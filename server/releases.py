"""What released versions of Apache Kafka serve: versions of APIs and levels of features, from kafka_releases.json
beside this file.
"""

from functools import cache
from pathlib import Path

import msgspec

from regroup.coordinator.settings import InvalidSetting
from regroup.protocol.fields import Versions

__all__ = ["ANY_RELEASE", "Release", "newest_release", "release_named"]

TABLE = Path(__file__).with_name("kafka_releases.json")
ANY_RELEASE = "any"
"""Named in place of a release, it stands for every version that the codec has, also the oldest ones, which no single
release serves."""


class Release(msgspec.Struct, frozen=True):
    """A release of Apache Kafka: the properties by which clients can distinguish it from other releases."""

    jars: str
    """The full version number of the Kafka release from which the other fields were read."""
    transaction_version: int
    """The level of the feature `transaction.version` in a new cluster: 2 is KIP-890; 0 means that the release does not
    have the feature."""
    apis: dict[int, tuple[int, int]]
    """First and last version of each API in its ApiVersions response, by API key."""
    refused_below: dict[int, int] = {}
    """First version that is really served, by API key, for APIs of which ApiVersions advertises earlier ones
    (KAFKA-18659)."""

    @property
    def name(self) -> str:
        """The short name of the release, such as `2.8`."""
        return self.jars.rpartition(".")[0]

    @property
    def group_version(self) -> int:
        """The level of the feature `group.version` in a new cluster: 1 is the consumer protocol (KIP-848), since 4.0.

        Earlier releases had previews of it, which differ.
        """
        return int(int(self.name.partition(".")[0]) >= 4)

    def limit(self, key: int, versions: Versions) -> Versions | None:
        """The versions among `versions` that this release advertises for an API; None if there are none."""
        first, last = self.apis.get(key, (0, -1))
        common = Versions(max(first, versions.first), min(last, versions.last))
        return common if common.first <= common.last else None

    def refuses(self, key: int, version: int) -> bool:
        """Whether brokers of this release refuse requests in this version of the API although their ApiVersions
        response contains it."""
        return version < self.refused_below.get(key, 0)


class _Table(msgspec.Struct, frozen=True):
    source: str
    releases: dict[str, Release]


@cache
def releases() -> dict[str, Release]:
    """Every known release by its short name, such as `2.8`, in ascending order."""
    return msgspec.json.decode(TABLE.read_bytes(), type=_Table).releases


def newest_release() -> Release:
    """The newest known release of Apache Kafka, which is emulated by default."""
    *_, newest = releases().values()
    return newest


def release_named(name: str) -> Release:
    """The release with this short name. Raises InvalidSetting, which lists the known releases."""
    known = releases()
    if name not in known:
        raise InvalidSetting(
            f"There is no table for Apache Kafka {name!r}. Known are: {', '.join(known)}; "
            f"and {ANY_RELEASE!r} for all versions."
        )
    return known[name]
