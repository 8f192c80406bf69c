"""What the commands that speak MQTT have in common: where the broker is, and how to come in."""

import argparse
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from regroup.coordinator.settings import InvalidSetting
from regroup.mqtt.address import MqttAccess, MqttAddress, parse_mqtt

Parsed = TypeVar("Parsed")


def mqtt_argument(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """argparse would show the whole argument, also one with a password in it; this shows only what is wrong."""

    def parsed(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


mqtt_address = mqtt_argument(parse_mqtt)


def add_mqtt_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mqtt-settings",
        metavar="FILE",
        type=Path,
        help="a TOML file with username, password, ca_file, cert_file, key_file; REGROUP_MQTT_USERNAME, "
        "REGROUP_MQTT_PASSWORD, … in the environment come first",
    )


def access_for(address: MqttAddress, path: Path | None) -> MqttAccess:
    """User, password and certificates from the environment and the file; InvalidSetting if they do not fit."""
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
        access = MqttAccess.from_settings(os.environ, settings)
        access.tls_for(address)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} cannot be read as TOML: {error}") from None
    except OSError as error:
        raise InvalidSetting(f"MQTT: {error.filename or path or 'a file'} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InvalidSetting(f"MQTT: {error}") from None
    return access
