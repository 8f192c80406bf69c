"""What a message is: a class with one line for each field, in the order of the wire.

The class is the only description. `fields_of` reads it back for the compiler; msgspec makes construction, equality
and JSON out of the same lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeAlias, Union, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec

from regroup.protocol.fields import Carried, Fixed, Ignorable, Nullable, Sized, Tagged, Versions

ALWAYS = Versions(0)
NEVER = Versions.parse("none")


class MessageClass(msgspec.StructMeta):
    """Takes `api_key`, `versions` and `flexible` in the first line of a class."""

    # Messages hold plain values and never one another in a ring, so the cycle collector need not look at them.
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> "MessageClass":
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
class Structure(msgspec.Struct, metaclass=MessageClass):
    """Fields that stand together inside a message. Immutable; made with keywords; equal by value."""


class Message(Structure):
    """The body of one request or response. `versions` can be read and written; those in `flexible` are compact."""

    api_key: ClassVar[int]
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]


@dataclass(frozen=True, slots=True)
class ListOf:
    element: "WireType"


WireType: TypeAlias = Fixed | Sized | ListOf | type[Structure]


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a message, understood."""

    name: str
    type: WireType
    default: Any
    carried: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool

    @property
    def has_default(self) -> bool:
        return self.default is not msgspec.NODEFAULT


@cache
def fields_of(structure: type[Structure]) -> tuple[Field, ...]:
    """The fields in the order of the wire. TypeError for a line that makes no sense."""
    hints = get_type_hints(structure, include_extras=True)
    return tuple(
        _read_field(f"{structure.__name__}.{info.name}", hints[info.name], info)
        for info in msgspec.structs.fields(structure)
    )


def _read_field(path: str, hint: Any, info: msgspec.structs.FieldInfo) -> Field:
    wire_type, may_be_null, marks = _understand(path, hint)
    carried = next((mark.versions for mark in marks if isinstance(mark, Carried)), ALWAYS)
    default = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
    if carried != ALWAYS and default is msgspec.NODEFAULT:
        raise TypeError(f"{path} is missing in some versions, so it needs a default")
    return Field(
        name=info.name,
        type=wire_type,
        default=default,
        carried=carried,
        nullable=next((mark.versions for mark in marks if isinstance(mark, Nullable)), ALWAYS)
        if may_be_null
        else NEVER,
        tag=next((mark.number for mark in marks if isinstance(mark, Tagged)), None),
        ignorable=any(isinstance(mark, Ignorable) for mark in marks),
    )


def _understand(path: str, hint: Any) -> tuple[WireType, bool, list[object]]:
    """The wire type, whether `None` is allowed, and every mark."""
    layers = list(_layers(hint))
    marks = [mark for _, layer_marks in layers for mark in layer_marks]
    may_be_null = any(NoneType in get_args(layer) for layer, _ in layers)
    core = layers[-1][0]
    leaf = next((mark for mark in marks if isinstance(mark, Fixed | Sized)), None)
    if leaf is not None:
        return leaf, may_be_null, marks
    if get_origin(core) is list:
        return ListOf(_understand(path, get_args(core)[0])[0]), may_be_null, marks
    if isinstance(core, type) and issubclass(core, Structure):
        return core, may_be_null, marks
    raise TypeError(f"{path}: {hint} has no form on the wire; use the types of regroup.protocol.fields")


def _layers(hint: Any) -> Iterator[tuple[Any, tuple[object, ...]]]:
    """From the outside in: `Annotated[X | None, mark]` is unwrapped to `X | None`, then `X`."""
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    yield hint, marks
    if get_origin(hint) in (Union, UnionType):
        yield from _layers(next(part for part in get_args(hint) if part is not NoneType))
