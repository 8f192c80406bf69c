"""MQTT in `regroup serve`: which MQTT broker to use, an embedded one if wanted, and the service that uses it."""

from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from regroup.cli.mqtt_access import load_mqtt_access
from regroup.cli.terminal.arguments import load
from regroup.mqtt.address import DEFAULT_CLUSTER, DEFAULT_PORTS, MqttAccess, MqttAddress, parse_mqtt_address
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.mqtt.embedded import embedded_broker

LOOPBACK_OF_WILDCARD: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a process reaches itself if it listens on all addresses."""


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """The request of --mqtt for an MQTT broker inside this process, and the port on which it is to listen."""

    port: int = DEFAULT_PORTS["mqtt"]


@dataclass(frozen=True, slots=True)
class ServeMqttOptions:
    """The checked options of MQTT: broker, credentials, and what the service does."""

    address: MqttAddress
    access: MqttAccess
    embedded_host: str | None
    """The address on which an embedded MQTT broker listens; None if the MQTT broker is another process."""
    remove_on_last_will: bool


def parse_mqtt_broker(text: str) -> MqttAddress | EmbeddedBroker:
    """Parse the argument of --mqtt: the URL of an MQTT broker, `embedded`, or `embedded:PORT`. Raises ValueError."""
    word, colon, port = text.partition(":")
    if word != "embedded":
        return parse_mqtt_address(text)
    if not colon:
        return EmbeddedBroker()
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"invalid port: {port!r}; write embedded, or embedded:1884")
    return EmbeddedBroker(int(port))


def mqtt_options(args: Namespace) -> ServeMqttOptions | None:
    """The options that the arguments describe; None without --mqtt. Raises CannotRun."""
    if args.mqtt is None:
        return None
    address, embedded_host = args.mqtt, None
    if isinstance(args.mqtt, EmbeddedBroker):
        embedded_host = args.host
        address = MqttAddress(LOOPBACK_OF_WILDCARD.get(args.host, args.host), args.mqtt.port, False, DEFAULT_CLUSTER)
    access = load_mqtt_access(address, args.mqtt_settings)
    return ServeMqttOptions(address, access, embedded_host, args.mqtt_will == "expel")


@asynccontextmanager
async def embedded_mqtt_broker(options: ServeMqttOptions | None) -> AsyncIterator[None]:
    """Run an embedded MQTT broker within the `async with` block, if the options ask for one. Raises InvalidSetting."""
    async with AsyncExitStack() as stack:
        if options is not None and options.embedded_host is not None:
            broker = embedded_broker(options.embedded_host, options.address.port, options.access)
            await stack.enter_async_context(broker)
        yield


@asynccontextmanager
async def serve_over_mqtt(options: ServeMqttOptions | None, cluster: BrokerCluster) -> AsyncIterator[None]:
    """Run the MQTT service within the `async with` block; do nothing without options."""
    async with AsyncExitStack() as stack:
        if options is not None:
            service = load("regroup.server.mqtt.service:MqttService")(
                cluster,
                options.address,
                options.access,
                new_incarnation=lambda: uuid4().hex,
                remove_on_last_will=options.remove_on_last_will,
            )
            await service.start()
            stack.push_async_callback(service.stop)
        yield
