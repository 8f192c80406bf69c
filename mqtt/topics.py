"""The names of all MQTT topics of one cluster, for any group id.

regroup/{cluster}/coordinator                              is it there? (retained, with a last will)
regroup/{cluster}/events                                   what concerns no group: topics, producers
regroup/{cluster}/groups/{group}/events|state|deaths       the feed
regroup/{cluster}/groups/{group}/again                     asks for events again
regroup/{cluster}/members/{name}/presence|control|answers  a member from afar, and its remote control
regroup/{cluster}/members/{name}/{incarnation}/requests|responses
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import unquote_to_bytes

LONGEST_PLAIN: Final = 20_000
"""Bytes of a level that is percent-encoded. MQTT allows 65,535 for a whole topic."""
LONGEST_BASE64: Final = 60_000
"""A group id of Kafka's classic protocol has at most 32,767 bytes, which is 43,692 in base 64."""
_EMPTY: Final = "%"
_BASE64: Final = "%~"
_DIGEST: Final = "%!"

# What MQTT forbids or brokers hang up for: wildcards, the separator, control characters, non-characters.
_FORBIDDEN: Final = re.compile(
    "[%+#/\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(map(chr, range(0xFFFE, 0x110000, 0x10000)))
    + "".join(map(chr, range(0xFFFF, 0x110000, 0x10000)))
    + "]"
)


def encode_level(text: str) -> str:
    """Any text as one level of a topic: as it is where that is possible, percent-encoded where MQTT forbids it.

    `decode_level` gives it back, unless it is longer than any group id of Kafka's classic protocol can be: then a
    digest stands for it, and only the payload names the group.
    """
    level = _FORBIDDEN.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text) or _EMPTY
    if len(level.encode()) <= LONGEST_PLAIN:
        return level
    level = _BASE64 + urlsafe_b64encode(text.encode()).decode()
    return level if len(level) <= LONGEST_BASE64 else _DIGEST + hashlib.sha256(text.encode()).hexdigest()


def decode_level(level: str) -> str:
    """The text that a level stands for. ValueError if it stands for none."""
    try:
        text = _decoded(level)
    except ValueError:
        text = None
    if text is None or encode_level(text) != level:
        raise ValueError(f"no group has the topic level {level[:80]!r}")
    return text


def _decoded(level: str) -> str:
    if level == _EMPTY:
        return ""
    if level.startswith(_BASE64):
        return urlsafe_b64decode(level.removeprefix(_BASE64)).decode()
    return unquote_to_bytes(level).decode()


class Topics:
    """Of one cluster. `+` in place of a name makes a subscription to all of them."""

    def __init__(self, cluster: str) -> None:
        self.root = f"regroup/{encode_level(cluster)}"
        self.coordinator = f"{self.root}/coordinator"
        self.all_groups = f"{self.root}/groups/+"

    def group(self, group_id: str | None, kind: str) -> str:
        """`kind` is events, state, deaths or again; what concerns no group has events and again."""
        return f"{self.root}/{kind}" if group_id is None else f"{self.root}/groups/{encode_level(group_id)}/{kind}"

    def member(self, name: str, kind: str) -> str:
        """`kind` is presence, control or answers."""
        return f"{self.root}/members/{encode_level(name)}/{kind}"

    def connection(self, name: str, incarnation: str, kind: str) -> str:
        """`kind` is requests or responses."""
        return f"{self.root}/members/{encode_level(name)}/{encode_level(incarnation)}/{kind}"

    def levels(self, topic: str) -> tuple[str, ...]:
        """What stands behind the cluster, still encoded; empty if the topic is not of this cluster."""
        prefix = f"{self.root}/"
        return tuple(topic[len(prefix) :].split("/")) if topic.startswith(prefix) else ()
