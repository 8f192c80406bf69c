"""The base classes of messages: a message is a class with one annotated attribute for each field, in the order of the
wire format.

The class is the only description of a message. `fields_of` reads it for the codec; msgspec derives construction,
equality and JSON from the same attributes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeAlias, Union, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec

from regroup.protocol.fields import Carried, FixedWidth, Ignorable, LengthPrefixed, Nullable, Tagged, Versions

_ALL_VERSIONS = Versions(0)
_NO_VERSION = Versions.parse("none")


class MessageMeta(msgspec.StructMeta):
    """The metaclass of messages; `api_key`, `versions` and `flexible` are arguments of the class statement."""

    # Messages never refer to each other in a cycle, so the cycle collector need not track them.
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> "MessageMeta":
        return super().__new__(mcs, name, bases, namespace, frozen=True, kw_only=True, gc=False)

    def __init__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: str = "none",
        flexible: str = "none",
    ) -> None:
        super().__init__(name, bases, namespace)
        if api_key is not None:
            cls.api_key = api_key
            cls.versions = Versions.parse(versions)
            cls.flexible = Versions.parse(flexible)


@dataclass_transform(kw_only_default=True)
class Structure(msgspec.Struct, metaclass=MessageMeta):
    """A message or a group of fields inside a message. Its instances are immutable, made with keyword arguments, and
    compared by value."""


class Message(Structure):
    """The body of a request or response. `flexible` is the range of versions with compact lengths and tagged fields."""

    api_key: ClassVar[int]
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]


@dataclass(frozen=True, slots=True)
class ListOf:
    """The wire type of an array, whose elements have one type."""

    element: "WireType"


WireType: TypeAlias = FixedWidth | LengthPrefixed | ListOf | type[Structure]


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field of a message: `carried` are the versions that have it, `nullable` those in which it may be null, and
    `tag` is its tag, None for a field that is not tagged."""

    name: str
    type: WireType
    default: Any
    carried: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool


@cache
def fields_of(structure: type[Structure]) -> tuple[MessageField, ...]:
    """The fields of a structure in the order of the wire format. Raises TypeError for a field that cannot be
    encoded."""
    hints = get_type_hints(structure, include_extras=True)
    return tuple(
        _read_field(f"{structure.__name__}.{info.name}", hints[info.name], info)
        for info in msgspec.structs.fields(structure)
    )


def _read_field(path: str, hint: Any, info: msgspec.structs.FieldInfo) -> MessageField:
    wire_type, may_be_null, marks = _read_hint(path, hint)
    carried = next((mark.versions for mark in marks if isinstance(mark, Carried)), _ALL_VERSIONS)
    default = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
    if carried != _ALL_VERSIONS and default is msgspec.NODEFAULT:
        raise TypeError(f"{path} is missing in some versions, so it needs a default")
    return MessageField(
        name=info.name,
        type=wire_type,
        default=default,
        carried=carried,
        nullable=next((mark.versions for mark in marks if isinstance(mark, Nullable)), _ALL_VERSIONS)
        if may_be_null
        else _NO_VERSION,
        tag=next((mark.number for mark in marks if isinstance(mark, Tagged)), None),
        ignorable=any(isinstance(mark, Ignorable) for mark in marks),
    )


def _read_hint(path: str, hint: Any) -> tuple[WireType, bool, list[object]]:
    """The wire type of a type hint, whether it allows `None`, and its marks."""
    layers = list(_layers(hint))
    marks = [mark for _, layer_marks in layers for mark in layer_marks]
    may_be_null = any(NoneType in get_args(layer) for layer, _ in layers)
    core = layers[-1][0]
    encoding = next((mark for mark in marks if isinstance(mark, FixedWidth | LengthPrefixed)), None)
    if encoding is not None:
        return encoding, may_be_null, marks
    if get_origin(core) is list:
        return ListOf(_read_hint(path, get_args(core)[0])[0]), may_be_null, marks
    if isinstance(core, type) and issubclass(core, Structure):
        return core, may_be_null, marks
    raise TypeError(f"{path}: {hint} has no encoding; use the types of regroup.protocol.fields")


def _layers(hint: Any) -> Iterator[tuple[Any, tuple[object, ...]]]:
    """The layers of a type hint with their marks, from the outside in: `Annotated[X | None, mark]`, `X | None`, `X`."""
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    yield hint, marks
    if get_origin(hint) in (Union, UnionType):
        yield from _layers(next(part for part in get_args(hint) if part is not NoneType))
