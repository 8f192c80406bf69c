"""What an endpoint is made of."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from regroup.control.errors import Status
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


@dataclass(kw_only=True)
class ControlledEmulator:
    """The emulator, and what the control port keeps beside it."""

    emulator: AsyncEmulator
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the brokers are killed or started again."""
    waits: int = 0
    """Requests that wait for something."""


Handler: TypeAlias = Callable[[ControlledEmulator, Any], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class ControlEndpoint:
    """A function that is called over HTTP. The input of a GET is in the query, that of a POST in the JSON body."""

    method: Method
    path: str
    handle: Handler
    refusals: tuple[Status, ...]
    """The errors that are peculiar to it."""
    example: dict[str, Any]
    """An input, for the documents."""
    waits: bool
    """It may take as long as the input says."""

    @property
    def input_type(self) -> type[msgspec.Struct]:
        """The type of the query or of the body."""
        named: type[msgspec.Struct] = get_type_hints(self.handle)["wanted"]
        return named

    @property
    def answer_type(self) -> Any:
        """The type of the JSON in the answer."""
        return get_type_hints(self.handle)["return"]

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
    return ControlEndpoint(method="POST", path=path, handle=handle, refusals=refusals, example=example, waits=False)
