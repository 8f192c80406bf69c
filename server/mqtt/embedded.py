"""An MQTT broker inside this process, for a machine that has none: amqtt, which speaks MQTT 3.1.1.

It is an optional extra (`pip install 'kafka-regroup[mqtt-broker]'`). What is retained dies with the process.
"""

import errno
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from regroup.coordinator.settings import InvalidSetting
from regroup.mqtt.address import MqttAccess

ANYBODY: Final = "amqtt.plugins.authentication.AnonymousAuthPlugin"
WITH_PASSWORD: Final = "regroup.server.mqtt.embedded_access.PasswordPlugin"


class Steady(dict[str, Any]):
    """amqtt 0.12 walks through all subscriptions while others subscribe, and drops a client over it."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))


@asynccontextmanager
async def embedded_broker(host: str, port: int, access: MqttAccess) -> AsyncIterator[None]:
    """Listens until the end. If `access` has user and password, everybody needs them; otherwise anybody may come in.

    Raises InvalidSetting if the library is missing or the port is taken.
    """
    try:
        amqtt, errors = import_module("amqtt.broker"), import_module("amqtt.errors")
    except ImportError:
        raise InvalidSetting(
            "--mqtt embedded needs amqtt: pip install 'kafka-regroup[mqtt-broker]', or name a broker that runs already."
        ) from None
    for name in ("amqtt", "transitions"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    broker = amqtt.Broker(_config(host, port, access))
    broker._subscriptions = Steady(broker._subscriptions)
    try:
        await broker.start()
    except errors.BrokerError as error:
        taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
        reason = "somebody listens there already; write --mqtt embedded:PORT for another port" if taken else error
        raise InvalidSetting(f"the embedded MQTT broker cannot listen on {host}:{port}: {reason}.") from None
    try:
        yield
    finally:
        await broker.shutdown()


def _config(host: str, port: int, access: MqttAccess) -> dict[str, Any]:
    secret = {"username": access.username, "password": access.password}
    plugins: dict[str, Any] = {WITH_PASSWORD: secret} if access.username else {ANYBODY: {"allow_anonymous": True}}
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {"listeners": {"default": {"type": "tcp", "bind": bind}}, "plugins": plugins}
