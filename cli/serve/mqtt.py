"""The part of `regroup serve` that speaks MQTT."""

import argparse
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from regroup.cli.mqtt_arguments import access_for, add_mqtt_settings, mqtt_argument
from regroup.mqtt.address import DEFAULT_CLUSTER, PORTS, MqttAccess, MqttAddress, parse_mqtt
from regroup.server.broker_cluster import Emulator
from regroup.server.mqtt.embedded import embedded_broker
from regroup.server.mqtt.service import MqttService

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A broker in this process, on this port."""

    port: int = PORTS["mqtt"]


@dataclass(frozen=True, slots=True)
class MqttPlan:
    """What was asked for, checked."""

    address: MqttAddress
    access: MqttAccess
    is_embedded: bool
    host: str
    expels: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mqtt",
        metavar="URL",
        type=mqtt_argument(parse_broker),
        help="publish every event on this MQTT broker, and let members join over it: mqtt://HOST:PORT, mqtts:// for "
        "TLS, /CLUSTER behind it where several share a broker; `embedded` or `embedded:PORT` starts a broker here",
    )
    add_mqtt_settings(parser)
    parser.add_argument(
        "--mqtt-will",
        choices=("watch", "expel"),
        default="watch",
        help="when the broker announces that a member's connection died: only say so, or let it leave its group at "
        "once (default: watch)",
    )


def parse_broker(text: str) -> MqttAddress | Embedded:
    """An address, or a broker of our own. ValueError."""
    word, colon, port = text.partition(":")
    if word != "embedded":
        return parse_mqtt(text)
    if not colon:
        return Embedded()
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{port!r} is no port; write embedded, or embedded:1884")
    return Embedded(int(port))


def plan_of(args: argparse.Namespace) -> MqttPlan | None:
    """None without --mqtt. InvalidSetting for what does not fit together."""
    if args.mqtt is None:
        return None
    if isinstance(args.mqtt, Embedded):
        address = MqttAddress(EVERYWHERE.get(args.host, args.host), args.mqtt.port, False, DEFAULT_CLUSTER)
        access = access_for(address, args.mqtt_settings)
        return MqttPlan(address, access, True, args.host, args.mqtt_will == "expel")
    access = access_for(args.mqtt, args.mqtt_settings)
    return MqttPlan(args.mqtt, access, False, args.host, args.mqtt_will == "expel")


@asynccontextmanager
async def on_mqtt(plan: MqttPlan | None, emulator: Emulator) -> AsyncIterator[MqttService | None]:
    """The emulator is on MQTT until the end, if that was asked for."""
    if plan is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        if plan.is_embedded:
            await stack.enter_async_context(embedded_broker(plan.host, plan.address.port, plan.access))
        service = MqttService(
            emulator, plan.address, plan.access, new_incarnation=lambda: uuid4().hex, expels=plan.expels
        )
        await service.start()
        stack.push_async_callback(service.stop)
        print("feed on", plan.address, flush=True)
        yield service
