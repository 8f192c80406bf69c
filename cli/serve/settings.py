"""Settings of `regroup serve` by their Kafka names, from the command line and from a TOML file."""

import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from regroup.cli.jobs import CannotRun
from regroup.coordinator.settings import CoordinatorSettings, UnknownSetting, unknown_setting_message
from regroup.server.settings import BrokerSettings


def read_settings(args: Namespace) -> tuple[CoordinatorSettings, BrokerSettings]:
    """Read the settings of the coordinator and of the broker; `--set` overrides the file.

    Raises UnknownSetting, InvalidSetting, and CannotRun for a file that cannot be read.
    """
    texts = read_settings_file(args.config) | dict(args.settings)
    group_names, broker_names = CoordinatorSettings.names(), BrokerSettings.names()
    for name in texts:
        if name not in (*group_names, *broker_names):
            raise UnknownSetting(unknown_setting_message(name, sorted({*group_names, *broker_names})))
    return (
        CoordinatorSettings.from_texts({name: text for name, text in texts.items() if name in group_names}),
        BrokerSettings.from_texts({name: text for name, text in texts.items() if name in broker_names}),
    )


def read_settings_file(path: Path | None) -> dict[str, str]:
    """Read a TOML file; `group.max.size = 5` and a table `[group.max]` with `size = 5` mean the same."""
    if path is None:
        return {}
    try:
        return dict(_flatten("", tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CannotRun(f"{path} cannot be read as TOML: {error}") from None


def _flatten(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else str(value)
