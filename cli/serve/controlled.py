"""The brokers of `regroup serve --control`: those of the test kit, with the control port beside them.

Only `--control` loads this module, since the kit and the web server take time to load.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.brokers import ServedBrokers, ServeOptions
from regroup.cli.serve.control import ControlOptions
from regroup.cli.serve.mqtt import serve_over_mqtt
from regroup.control.web.server import serve_control
from regroup.server.faults.gate import FaultRules
from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.options import ProcessOptions


class ControlledBrokers:
    """The brokers of an emulator."""

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
    options: ServeOptions, control: ControlOptions
) -> AsyncIterator[tuple[ServedBrokers, str]]:
    """Run the brokers and the control port until the end of the block; gives the address of the port too.

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
        serving = serve_control(emulator, control.host, control.port, token=control.token, names=control.names)
        try:
            address = await stack.enter_async_context(serving)
        except OSError as error:
            raise CannotRun(f"cannot listen on {control.host}:{control.port}: {error.strerror}.") from error
        yield ControlledBrokers(emulator), address
