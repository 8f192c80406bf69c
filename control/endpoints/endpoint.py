"""What an endpoint is made of."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta

from regroup.classroom.live.documents import LiveDocuments
from regroup.classroom.live.following import FollowedTimelines
from regroup.control.errors import Status
from regroup.control.simulated import MembersOfProcess
from regroup.coordinator.group import MemberId
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ViewObserved
from regroup.testing.async_emulator import AsyncEmulator

Method: TypeAlias = Literal["GET", "POST"]
MAX_WAIT_S: Final = 600.0
"""The longest wait that a request may ask for."""
MAX_ROWS: Final = 10_000
"""The most rows of an answer."""


class NoInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing."""


class ListInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a list is wanted."""

    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="The most rows of the answer.")] = MAX_ROWS


class Done(msgspec.Struct, frozen=True):
    """The act is durable."""

    done: bool = True


class ControlledEmulator:
    """The emulator, and what its ports keep beside it: `close` ends that, and not the emulator."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self.emulator = emulator
        self.members = MembersOfProcess(emulator)
        self.timelines = FollowedTimelines(lambda: emulator.history)
        self.documents = LiveDocuments(self.timelines, self)
        self.changing = asyncio.Lock()
        """Held while the brokers are killed or started again."""
        self.is_read_only = False
        """Whether a port shows and does not act."""
        self.waits = 0
        """Requests to a port that wait for something, and streams."""

    def at_port(self, *, is_read_only: bool) -> "ControlledEmulator":
        """The same for one port, which counts its own waits."""
        controlled = copy(self)
        controlled.is_read_only, controlled.waits = is_read_only, 0
        return controlled

    def rows(self) -> Sequence[ExchangeRow]:
        """The recorded exchanges that are in memory."""
        recorder = self.emulator.recorder
        return recorder.rows() if recorder else ()

    def views_of(self, group: str, member_ids: Collection[MemberId]) -> Sequence[ViewObserved] | None:
        """What these members have believed they owned, if all are simulated ones."""
        return self.members.views_of(group, member_ids)

    async def close(self) -> None:
        """End the simulated members."""
        await self.members.close()


Handler: TypeAlias = Callable[[ControlledEmulator, Any], Awaitable[Any]]
StreamHandler: TypeAlias = Callable[[ControlledEmulator, Any], AsyncIterator[Any]]


@dataclass(frozen=True, kw_only=True)
class ControlEndpoint:
    """A function that is called over HTTP. The input of a GET is in the query, that of a POST in the JSON body."""

    method: Method
    path: str
    handle: Handler | StreamHandler
    refusals: tuple[Status, ...]
    """The errors that are peculiar to it."""
    example: dict[str, Any]
    """An input, for the documents."""
    waits: bool = False
    """It may take as long as the input says."""
    streams: bool = False
    """It answers with one message after another, until the client goes."""

    @property
    def input_type(self) -> type[msgspec.Struct]:
        """The type of the query or of the body."""
        named: type[msgspec.Struct] = get_type_hints(self.handle)["wanted"]
        return named

    @property
    def answer_type(self) -> Any:
        """The type of the JSON in the answer, or in each message of a stream."""
        hinted = get_type_hints(self.handle)["return"]
        return get_args(hinted)[0] if self.streams else hinted

    @property
    def description(self) -> str:
        """The docstring of the function."""
        return " ".join((self.handle.__doc__ or "").split())

    @property
    def name(self) -> str:
        """A name for programs that are made from the document: `group_expire`."""
        return self.path.strip("/").replace("/", "_").replace("-", "_")


def look(path: str, handle: Handler, *refusals: Status, waits: bool = False, **example: Any) -> ControlEndpoint:
    """An endpoint that changes nothing; `example` is an input."""
    return ControlEndpoint(method="GET", path=path, handle=handle, refusals=refusals, example=example, waits=waits)


def act(path: str, handle: Handler, *refusals: Status, **example: Any) -> ControlEndpoint:
    """An endpoint that changes something."""
    return ControlEndpoint(method="POST", path=path, handle=handle, refusals=refusals, example=example)


def stream(path: str, handle: StreamHandler, *refusals: Status, **example: Any) -> ControlEndpoint:
    """An endpoint that changes nothing and answers with one message after another."""
    return ControlEndpoint(method="GET", path=path, handle=handle, refusals=refusals, example=example, streams=True)
