"""The names of the MQTT topics of one cluster, for any group id.

regroup/{cluster}/coordinator                              presence of the server (retained, with a last will)
regroup/{cluster}/topics                                   names of Kafka's topics by their ids (retained)
regroup/{cluster}/events                                   events of the cluster: topics, producers
regroup/{cluster}/replay                                   requests to publish events of the cluster again
regroup/{cluster}/groups/{group}/events                    the feed: events of a group
regroup/{cluster}/groups/{group}/state                     its state (retained)
regroup/{cluster}/groups/{group}/connection-losses         lost connections of its remote clients
regroup/{cluster}/groups/{group}/refusals                  refused requests of its members, which are no events
regroup/{cluster}/groups/{group}/replay                    requests to publish its events again
regroup/{cluster}/members/{name}/presence|control|answers  a remote client: presence, control topic, its responses
regroup/{cluster}/members/{name}/{incarnation}/requests|responses
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from typing import Final
from urllib.parse import unquote_to_bytes

_MAX_PERCENT_ENCODED_BYTES: Final = 20_000
"""The most bytes of one topic level with percent-encoded characters. MQTT allows 65,535 bytes for a whole topic."""
_MAX_BASE64_BYTES: Final = 60_000
"""The most bytes of one topic level in base 64. A group id of Kafka's classic protocol has at most 32,767 bytes, which
is 43,692 in base 64."""
_EMPTY: Final = "%"
_BASE64: Final = "%~"
_DIGEST: Final = "%!"

# What MQTT forbids or brokers disconnect for: wildcards, the separator, control characters, non-characters.
_FORBIDDEN: Final = re.compile(
    "[%+#/\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(map(chr, range(0xFFFE, 0x110000, 0x10000)))
    + "".join(map(chr, range(0xFFFF, 0x110000, 0x10000)))
    + "]"
)


def encode_level(text: str) -> str:
    """Encode any text as one level of a topic; characters that MQTT forbids are percent-encoded.

    A text longer than any group id of Kafka's classic protocol is replaced by a digest, which `decode_level` refuses;
    the payload then has the group's id.
    """
    level = _FORBIDDEN.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text) or _EMPTY
    if len(level.encode()) <= _MAX_PERCENT_ENCODED_BYTES:
        return level
    level = _BASE64 + urlsafe_b64encode(text.encode()).decode()
    return level if len(level) <= _MAX_BASE64_BYTES else _DIGEST + hashlib.sha256(text.encode()).hexdigest()


def decode_level(level: str) -> str:
    """The text that a topic level encodes. Raises ValueError for a level that `encode_level` does not make, and for a
    digest."""
    text: str | None = None
    with suppress(ValueError):
        if level == _EMPTY:
            text = ""
        elif level.startswith(_BASE64):
            text = urlsafe_b64decode(level.removeprefix(_BASE64)).decode()
        else:
            text = unquote_to_bytes(level).decode()
    if text is None or encode_level(text) != level:
        raise ValueError(f"invalid topic level: {level[:80]!r}")
    return text


class MqttTopics:
    """The names of the topics of one cluster. `+` in place of a name gives a subscription to the topics of all
    names."""

    def __init__(self, cluster: str) -> None:
        self.root = f"regroup/{encode_level(cluster)}"
        self.coordinator = f"{self.root}/coordinator"
        self.topic_names = f"{self.root}/topics"
        self.all_groups = f"{self.root}/groups/+"

    def group(self, group_id: str | None, kind: str) -> str:
        """The topic of a group, or of the cluster if `group_id` is None. `kind` is the last level of the topic, such as
        `events`, `state` or `replay`."""
        return f"{self.root}/{kind}" if group_id is None else f"{self.root}/groups/{encode_level(group_id)}/{kind}"

    def member(self, name: str, kind: str) -> str:
        """The topic of a remote client; `kind` is presence, control or answers."""
        return f"{self.root}/members/{encode_level(name)}/{kind}"

    def connection(self, name: str, incarnation: str, kind: str) -> str:
        """The topic of one connection of a remote client; `kind` is requests or responses."""
        return f"{self.root}/members/{encode_level(name)}/{encode_level(incarnation)}/{kind}"

    def levels(self, topic: str) -> tuple[str, ...]:
        """The levels of a topic that follow the cluster's name, still percent-encoded; empty for a topic of another
        cluster."""
        prefix = f"{self.root}/"
        return tuple(topic[len(prefix) :].split("/")) if topic.startswith(prefix) else ()
