"""Settings by their Kafka names, typed or in a file, and which of them are the coordinator's."""

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path

from regroup.coordinator.settings import InvalidSetting, Settings, UnknownSetting
from regroup.server.settings import BrokerSettings, unknown_setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        help="a setting by its Kafka name; may be repeated",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings from a TOML file, by their Kafka names")


def settings_of(args: argparse.Namespace) -> tuple[Settings, BrokerSettings]:
    """What is typed goes before what is in the file."""
    return settings_from(texts_from(args.config) | dict(args.settings))


def settings_from(texts: Mapping[str, str]) -> tuple[Settings, BrokerSettings]:
    """The coordinator's settings and the broker's, told apart by their names."""
    groups, broker = set(Settings.names()), set(BrokerSettings.names())
    for name in texts:
        if name not in groups | broker:
            raise UnknownSetting(unknown_setting(name, sorted(groups | broker)))
    return (
        Settings.from_texts({name: text for name, text in texts.items() if name in groups}),
        BrokerSettings.from_texts({name: text for name, text in texts.items() if name in broker}),
    )


def texts_from(path: Path | None) -> dict[str, str]:
    """The settings of a TOML file; `group.max.size = 5` and a table `[group.max]` with `size = 5` mean the same."""
    if path is None:
        return {}
    try:
        return dict(flattened("", tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InvalidSetting(f"{path} cannot be read as TOML: {error}") from None


def flattened(prefix: str, values: Mapping[str, object]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            rows += flattened(f"{name}.", value)
        else:
            rows.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return rows


def setting(text: str) -> tuple[str, str]:
    """`NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write NAME=VALUE, for example group.max.size=5")
    return name.strip(), value.strip()
