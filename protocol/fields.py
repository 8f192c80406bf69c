"""The words in which messages are written down: Kafka's types, and the marks that say when a field exists.

    rebalance_timeout_ms: Annotated[Int32, since(1), ignorable] = -1

A type alias is the builtin type that holds the value, annotated with its form on the wire. A mark narrows a field:
`since`, `until`, `between` and `only` give the versions that carry it, `nullable` the versions in which it may be
null (without it `X | None` may always be), `tagged` puts it among the tagged fields (KIP-482), and `ignorable` lets
it be dropped silently where the version lacks it.
"""

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

NEWEST: Final = 32767


class Versions(NamedTuple):
    """First and last version, both included."""

    first: int
    last: int = NEWEST

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Kafka's notation: `3`, `0-9`, `6+`; `none` is an empty range."""
        if text == "none":
            return cls(NEWEST, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]))
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last == NEWEST:
            return f"{self.first}+"
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width; `code` is its letter in the language of `struct`."""

    code: str


@dataclass(frozen=True, slots=True)
class Sized:
    """A length, then that many bytes; `length_code` is the length's letter before flexible versions."""

    length_code: str
    is_text: bool = False


Int8: TypeAlias = Annotated[int, Fixed("b")]
Int16: TypeAlias = Annotated[int, Fixed("h")]
Int32: TypeAlias = Annotated[int, Fixed("i")]
Int64: TypeAlias = Annotated[int, Fixed("q")]
Float64: TypeAlias = Annotated[float, Fixed("d")]
Bool: TypeAlias = Annotated[bool, Fixed("?")]
Uuid: TypeAlias = Annotated[bytes, Fixed("16s")]
"""Sixteen bytes; `NO_UUID` stands for none."""
Text: TypeAlias = Annotated[str, Sized("h", is_text=True)]
Bytes: TypeAlias = Annotated[bytes, Sized("i")]
Records: TypeAlias = Annotated[bytes, Sized("i")]
"""Record batches or an old message set, kept as they came; see `regroup.protocol.record_batch`."""

NO_UUID: Final = bytes(16)
UNKNOWN_OPERATIONS: Final = -(2**31)
"""The bit field `authorized_operations` when nobody asked for it."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The versions whose bytes hold the field."""

    versions: Versions


@dataclass(frozen=True, slots=True)
class Nullable:
    """The versions in which the field may be null."""

    versions: Versions


@dataclass(frozen=True, slots=True)
class Tagged:
    """The number of the field among the tagged fields; it is written only when it is not at its default."""

    number: int


@dataclass(frozen=True, slots=True)
class Ignorable:
    """A value in this field is dropped, and no error, where the version lacks the field."""


def since(first: int) -> Carried:
    return Carried(Versions(first))


def until(last: int) -> Carried:
    return Carried(Versions(0, last))


def between(first: int, last: int) -> Carried:
    return Carried(Versions(first, last))


def only(version: int) -> Carried:
    return Carried(Versions(version, version))


def nullable(first: int, last: int = NEWEST) -> Nullable:
    return Nullable(Versions(first, last))


def tagged(number: int) -> Tagged:
    return Tagged(number)


ignorable: Final = Ignorable()
