"""Reads the credentials for an MQTT broker, for the commands `serve`, `members` and `watch`."""

import os
import tomllib
from pathlib import Path

from regroup.cli.jobs import CannotRun
from regroup.mqtt.address import MqttAccess, MqttAddress


def load_mqtt_access(address: MqttAddress, path: Path | None) -> MqttAccess:
    """Read user, password and certificates from the environment and the file. Raises CannotRun for what is invalid."""
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
        access = MqttAccess.from_settings(os.environ, settings)
        access.tls_context(address)
    except tomllib.TOMLDecodeError as error:
        raise CannotRun(f"{path} cannot be read as TOML: {error}") from None
    except OSError as error:
        raise CannotRun(f"MQTT: {error.filename or path or 'a file'} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CannotRun(f"MQTT: {error}") from None
    return access
