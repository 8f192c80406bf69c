"""The broker's settings by Kafka's own names: `num.partitions`, `auto.create.topics.enable`, …"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, NamedTuple

from regroup.coordinator.settings import MAX_INT, InvalidSetting, UnknownSetting


class ShownSetting(NamedTuple):
    """A setting as DescribeConfigs shows it. `kind` is Kafka's number of the type: 1 bool, 3 int, 5 long."""

    name: str
    text: str
    default: str
    kind: int


def whole_number(default: int, *, least: int, most: int = MAX_INT) -> Any:
    """A field that holds a whole number between two limits, both allowed."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What the broker around the coordinator goes by. Names are Kafka's with `_` in place of `.`."""

    num_partitions: int = whole_number(1, least=1, most=10_000)
    """Partitions of a topic for which nobody named a number."""
    default_replication_factor: int = whole_number(1, least=1, most=32_767)
    auto_create_topics_enable: bool = True
    """May asking for a topic's metadata make the topic?"""
    delete_topic_enable: bool = True
    message_max_bytes: int = whole_number(1_048_588, least=0)
    """The largest record batch a topic takes, unless its `max.message.bytes` says otherwise."""
    log_retention_bytes: int = whole_number(64 * 1024 * 1024, least=-1, most=2**63 - 1)
    """What one partition keeps in memory before its oldest batches go; -1 means everything. Kafka's default is -1."""
    fetch_max_bytes: int = whole_number(57_671_680, least=1024)
    """The most that one fetch is answered with, whatever it asks for."""
    socket_request_max_bytes: int = whole_number(104_857_600, least=1)
    """The longest frame; whoever announces a longer one is disconnected."""
    connections_max_idle_ms: int = whole_number(600_000, least=1, most=2**63 - 1)
    """A connection on which nothing moves for so long is closed."""
    transaction_max_timeout_ms: int = whole_number(900_000, least=1)

    @classmethod
    def names(cls) -> list[str]:
        """Every setting by its Kafka name."""
        return [_kafka_name(each.name) for each in fields(cls)]

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> "BrokerSettings":
        """Settings from text such as `{"num.partitions": "3"}`; the others have their defaults.

        Raises UnknownSetting and InvalidSetting, both of which say what would do.
        """
        known = {_kafka_name(each.name): each for each in fields(cls)}
        values: dict[str, Any] = {}  # each is parsed by the rule of its own field
        for name, text in texts.items():
            if name not in known:
                raise UnknownSetting(unknown_setting(name, list(known)))
            values[known[name].name] = _parse(name, text, known[name].metadata)
        return cls(**values)

    def shown(self) -> Iterator[ShownSetting]:
        """All of them, as DescribeConfigs shows them."""
        for each in fields(self):
            kind = 1 if isinstance(each.default, bool) else 5 if each.metadata["most"] > MAX_INT else 3
            yield ShownSetting(
                _kafka_name(each.name), setting_text(getattr(self, each.name)), setting_text(each.default), kind
            )


def setting_text(value: object) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown_setting(name: str, known: list[str]) -> str:
    """What to tell somebody who named a setting that does not exist."""
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return f"There is no setting {name}: {hint}"


def _kafka_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def _parse(name: str, text: str, limits: Mapping[str, int]) -> int | bool:
    return parse_whole_number(name, text, limits["least"], limits["most"]) if limits else parse_truth(name, text)


def parse_truth(name: str, text: str) -> bool:
    """`true` or `false`, in any case. InvalidSetting."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidSetting(f"{name} is either true or false, not {text!r}")
    return word == "true"


def parse_whole_number(name: str, text: str, least: int, most: int) -> int:
    """A whole number between `least` and `most`. InvalidSetting."""
    try:
        value = int(text)
    except ValueError:
        raise InvalidSetting(f"{name} must be a whole number, not {text!r}") from None
    if not least <= value <= most:
        raise InvalidSetting(f"{name} must be between {least} and {most}, not {value}")
    return value
