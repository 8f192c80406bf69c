"""The brokers of `regroup serve` with --control or --page: those of the test kit, with control ports beside them.

Only these options load this module, since the kit and the web server take time to load.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.brokers import ServedBrokers, ServeOptions
from regroup.cli.serve.control import ControlOptions
from regroup.cli.serve.mqtt import serve_over_mqtt
from regroup.control.endpoints.endpoint import ControlledEmulator
from regroup.control.web.files import PortKind
from regroup.control.web.server import serve_control
from regroup.server.faults.gate import FaultRules
from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.options import ProcessOptions


class ControlledBrokers:
    """The brokers of an emulator, as the prompt uses them."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator
        self.stop_broker, self.start_broker = emulator.stop_broker, emulator.start_broker

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return self._emulator.cluster.addresses

    @property
    def faults(self) -> FaultRules:
        return self._emulator.interference.faults


@asynccontextmanager
async def controlled_brokers(
    options: ServeOptions, ports: Sequence[ControlOptions]
) -> AsyncIterator[tuple[ServedBrokers, list[str]]]:
    """Run the brokers with their control ports within the `async with` block. It gets the brokers, and the lines that
    name the ports.

    Raises StoreError, InvalidSetting, CannotRun for a control port that is taken, or OSError for a broker's.
    """
    emulator = AsyncEmulator(
        ProcessOptions(
            cluster=options.cluster,
            open_store=options.open_store,
            reopen_store=options.reopen_store,
            topics=options.topics,
            services=(partial(serve_over_mqtt, options.mqtt),),
        )
    )
    await emulator.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(emulator.close)
        controlled = ControlledEmulator(emulator)
        stack.push_async_callback(controlled.close)
        lines = []
        for port in ports:
            serving = serve_control(
                controlled, port.host, port.port, token=port.token, names=port.names, kind=PortKind(port.kind)
            )
            try:
                address = await stack.enter_async_context(serving)
            except OSError as error:
                raise CannotRun(f"cannot listen on {port.host}:{port.port}: {error.strerror}.") from error
            lines.append(f"{PortKind(port.kind).option} on {address}")
        yield ControlledBrokers(emulator), lines
