"""The types of fields, and the marks (versions, nullable, tagged, ignorable), with which messages are declared.

    rebalance_timeout_ms: Annotated[Int32, since(1), ignorable] = -1

A type is the Python type that holds the value, annotated with its encoding. Marks refine a field, with the meaning that
they have in Kafka's message definitions: `since`, `until`, `between` and `only` give the versions that carry it,
`nullable` the versions in which it may be null (without this mark `X | None` always may), `tagged` makes it a tagged
field (KIP-482), and `ignorable` lets a version without the field drop its value.
"""

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

NEWEST: Final = 32767
"""The last version of a range that has no end, such as `6+`."""


class Versions(NamedTuple):
    """A range of versions from first to last, both included."""

    first: int
    last: int = NEWEST

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Read Kafka's notation: `3`, `0-9`, `6+`; `none` is an empty range."""
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
class FixedWidth:
    """A value of fixed width; `code` is its format character in Python's `struct` module."""

    code: str


@dataclass(frozen=True, slots=True)
class LengthPrefixed:
    """A value that is encoded as a length and that many bytes. `length_code` is the format character of the length in
    versions without compact lengths."""

    length_code: str
    is_text: bool = False


Int8: TypeAlias = Annotated[int, FixedWidth("b")]
Int16: TypeAlias = Annotated[int, FixedWidth("h")]
Int32: TypeAlias = Annotated[int, FixedWidth("i")]
Int64: TypeAlias = Annotated[int, FixedWidth("q")]
Bool: TypeAlias = Annotated[bool, FixedWidth("?")]
Uuid: TypeAlias = Annotated[bytes, FixedWidth("16s")]
"""A UUID, such as a topic id, as sixteen bytes; `NO_UUID` (all zeros) stands for none."""
Text: TypeAlias = Annotated[str, LengthPrefixed("h", is_text=True)]
Bytes: TypeAlias = Annotated[bytes, LengthPrefixed("i")]
Records: TypeAlias = Annotated[bytes, LengthPrefixed("i")]
"""Record batches, or an old message set, as bytes that are not decoded; see `regroup.protocol.record_batch`."""

NO_UUID: Final = bytes(16)
UNKNOWN_OPERATIONS: Final = -(2**31)
"""The value of the bit field `authorized_operations` in a response whose request did not ask for it."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Marks a field with the versions of the message that contain it."""

    versions: Versions


@dataclass(frozen=True, slots=True)
class Nullable:
    """Marks a field with the versions of the message in which its value may be null."""

    versions: Versions


@dataclass(frozen=True, slots=True)
class Tagged:
    """Marks a field as a tagged field, with the number of its tag. A tagged field is written only if its value differs
    from its default."""

    number: int


@dataclass(frozen=True, slots=True)
class Ignorable:
    """Marks a field whose value is dropped when a message is encoded in a version that does not contain it. Without
    this mark that is an error, unless the value is the default."""


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
