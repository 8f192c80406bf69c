"""An MQTT 3.1.1 broker inside this process, amqtt, for a machine without an MQTT broker.

It is optional (`pip install amqtt`). Retained messages are lost when the process ends.
"""

import errno
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from regroup.coordinator.settings import InvalidSetting
from regroup.mqtt.address import MqttAccess

_ANONYMOUS_PLUGIN: Final = "amqtt.plugins.authentication.AnonymousAuthPlugin"
_PASSWORD_PLUGIN: Final = "regroup.server.mqtt.embedded_access.PasswordPlugin"


class _CopyOnIterationDict(dict[str, Any]):
    """A dict that may change while it is iterated: amqtt 0.12 iterates over all subscriptions while clients subscribe,
    and otherwise disconnects one of them."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))


@asynccontextmanager
async def embedded_broker(host: str, port: int, access: MqttAccess) -> AsyncIterator[None]:
    """Run an MQTT broker in this process, on this host and port, until the end of the `async with` block. Clients must
    give the user and password of `access`, if it has them.

    Raises InvalidSetting if amqtt is not installed or the port is in use.
    """
    try:
        amqtt, errors = import_module("amqtt.broker"), import_module("amqtt.errors")
    except ImportError:
        raise InvalidSetting(
            "--mqtt embedded needs amqtt: pip install amqtt, or use the URL of a running broker."
        ) from None
    for name in ("amqtt", "transitions"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    broker = amqtt.Broker(_config(host, port, access))
    broker._subscriptions = _CopyOnIterationDict(broker._subscriptions)
    try:
        await broker.start()
    except errors.BrokerError as error:
        is_in_use = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
        reason = "the port is in use; write --mqtt embedded:PORT for another port" if is_in_use else error
        raise InvalidSetting(f"the embedded MQTT broker cannot listen on {host}:{port}: {reason}.") from None
    try:
        yield
    finally:
        await broker.shutdown()


def _config(host: str, port: int, access: MqttAccess) -> dict[str, Any]:
    secret = {"username": access.username, "password": access.password}
    plugins: dict[str, Any] = (
        {_PASSWORD_PLUGIN: secret} if access.username else {_ANONYMOUS_PLUGIN: {"allow_anonymous": True}}
    )
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {"listeners": {"default": {"type": "tcp", "bind": bind}}, "plugins": plugins}
