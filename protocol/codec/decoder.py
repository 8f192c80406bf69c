"""The compiler of decoders: generates and compiles a Python function that decodes one version of a message.

What a generated function looks like (HeartbeatRequest v4, shortened):

    def made(b, p, left=UNLIMITED):          # left: how many more entries all arrays together may have
        end = len(b)
        try:
            n1 = b[p]
            if n1 > 127: n1, p = long_uvarint(b, p)
            q2 = p + n1                      # a compact length is one too large, and p is still on the length
            if q2 > end or n1 <= 0: raise ValueError(...)
            v3 = b[p + 1:q2].decode()
            p = q2
            ...
            return HeartbeatRequest(group_id=v3, ...), p
        except FAULTS as error:
            raise malformed(error, p) from None

Every length is compared with the number of bytes left before it is used, because a slice past the end does not fail.
"""

import struct
import sys
from collections.abc import Callable
from typing import Any

from regroup.protocol.codec.source import Source, failing_path
from regroup.protocol.exceptions import Malformed
from regroup.protocol.fields import FixedWidth, LengthPrefixed
from regroup.protocol.message import ListOf, Message, MessageField, Structure, WireType, fields_of

FAULTS = (IndexError, ValueError, struct.error)
UNLIMITED = sys.maxsize
MAX_TAGGED_FIELDS = 32
"""The most tagged fields in one structure. Kafka's messages have a handful; a hundred megabytes of unknown ones would
take a minute."""


MAX_TEXT_BYTES = 32_767


def long_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; returns the value and the position of its last byte."""
    value = shift = 0
    for at in range(position, position + 5):
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a variable-length number has more than five bytes")


def long_text_length(buffer: bytes, position: int) -> tuple[int, int]:
    """Read the compact length of a text. A length above 32,767, which versions without compact lengths could not carry,
    raises ValueError, as in Kafka."""
    value, position = long_uvarint(buffer, position)
    if value > MAX_TEXT_BYTES + 1:
        raise ValueError(f"length {value - 1} is impossible; a text has at most {MAX_TEXT_BYTES} bytes")
    return value, position


def skip_tagged_fields(buffer: bytes, position: int) -> int:
    """Skip the tagged fields of a structure whose class has none in this version; returns the position behind them."""
    count, position = long_uvarint(buffer, position)
    refuse_many_tagged_fields(count)
    position += 1
    for _ in range(count):
        _, position = long_uvarint(buffer, position)
        size, position = long_uvarint(buffer, position + 1)
        position += 1 + size
        if position > len(buffer):
            raise ValueError(f"a tagged field of {size} bytes goes past the end")
    return position


def refuse_many_tagged_fields(count: int) -> None:
    """Raise ValueError if a structure has more tagged fields than MAX_TAGGED_FIELDS."""
    if count > MAX_TAGGED_FIELDS:
        raise ValueError(f"{count} tagged fields are too many; {MAX_TAGGED_FIELDS} are allowed in one structure")


def compile_decoder(message: type[Message], version: int) -> Callable[..., tuple[Any, int]]:
    """Generate and compile the function `decode(buffer, position, max_entries) -> (message, end)` for one version. It
    raises Malformed."""
    generator = _DecoderGenerator(version, version in message.flexible)
    source = generator.source
    source.line("end = len(b)")
    with source.block("try:"):
        value = generator.structure(message, "")
        source.line(f"return {value}, p")
    with source.block("except FAULTS as error:"):
        source.line("raise malformed(error, p) from None")
    title = f"{message.__name__} v{version}"

    def malformed(error: Exception, position: int) -> Malformed:
        path = failing_path(source.paths, error)
        reason = "the bytes end too early" if isinstance(error, IndexError | struct.error) else error
        return Malformed(f"{title}, field {path or '(first)'}, near offset {position}: {reason}")

    helpers = {
        "FAULTS": FAULTS,
        "malformed": malformed,
        "long_uvarint": long_uvarint,
        "long_text_length": long_text_length,
        "skip_tagged_fields": skip_tagged_fields,
        "refuse_many_tagged_fields": refuse_many_tagged_fields,
        "UNLIMITED": UNLIMITED,
        "unpack_from": struct.unpack_from,
    }
    return source.compile(f"decode {title}", helpers)


class _DecoderGenerator:
    """Generates the source of a decoder's body. Adjacent values of fixed width are collected in `_fixed`, so that the
    generated code unpacks them in one call.

    In its methods, `target` is the variable of the generated code to which a value is assigned, and `path` the name of
    the message field in error messages.
    """

    def __init__(self, version: int, flexible: bool) -> None:
        self.source = Source("def made(b, p, left=UNLIMITED):")
        self._version = version
        self._flexible = flexible
        self._fixed: list[tuple[str, str, str]] = []
        """Values for which no code has been generated yet: the format character, target and path of each."""

    def structure(self, structure: type[Structure], path: str) -> str:
        """Generate code that reads all fields of a structure. Returns the source of the expression that constructs
        it."""
        carried = [field for field in fields_of(structure) if self._version in field.carried]
        arguments = []
        for field in carried:
            if field.tag is None:
                target = self.source.fresh("v")
                self._value(field.type, target, self._version in field.nullable, f"{path}{field.name}")
                arguments.append(f"{field.name}={target}")
        self._unpack_fixed()
        if self._flexible:
            arguments += self._tagged_section([field for field in carried if field.tag is not None], path)
        return f"{self.source.constant(structure.__name__, structure)}({', '.join(arguments)})"

    def _value(self, wire_type: WireType, target: str, may_be_null: bool, path: str) -> None:
        match wire_type:
            case FixedWidth(code):
                self._fixed.append((code, target, path))
            case LengthPrefixed():
                self._length_prefixed(wire_type, target, may_be_null, path)
            case ListOf(element):
                self._list(element, target, may_be_null, path)
            case _:
                self._nested(wire_type, target, may_be_null, path)

    def _unpack_fixed(self) -> None:
        if self._fixed:
            codes = "".join(code for code, _, _ in self._fixed)
            targets = "".join(f"{target}, " for _, target, _ in self._fixed)
            self.source.line(f"{targets}= {self.source.struct('unpack_from', codes)}(b, p)", self._fixed[0][2])
            self.source.line(f"p += {_width(codes)}")
            self._fixed.clear()

    def _length(self, length_code: str, path: str) -> str:
        """Generate code that reads a length; returns the name of the variable that holds it.

        In the generated code, a compact length (flexible versions) is one larger than the true one, and `p` is at its
        last byte. After a length of fixed width, `p` is behind it.
        """
        count = self.source.fresh("n")
        if not self._flexible:
            self._fixed.append((length_code, count, path))
            self._unpack_fixed()
            return count
        self._unpack_fixed()
        read = "long_text_length" if length_code == "h" else "long_uvarint"
        self.source.line(f"{count} = b[p]", path)
        self.source.line(f"if {count} > 127: {count}, p = {read}(b, p)")
        return count

    def _length_prefixed(self, wire_type: LengthPrefixed, target: str, may_be_null: bool, path: str) -> None:
        line = self.source.line
        count, stop = self._length(wire_type.length_code, path), self.source.fresh("q")
        null, start, shown = ("0", "p + 1", f"{count} - 1") if self._flexible else ("-1", "p", count)
        decoding = ".decode()" if wire_type.is_text else ""

        def read() -> None:
            line(f"{stop} = p + {count}")
            refuse = f"raise ValueError(f'length {{{shown}}} is impossible')"
            line(f"if {stop} > end or {count} <= {null}: {refuse}")
            line(f"{target} = b[{start}:{stop}]{decoding}")
            line(f"p = {stop}")

        if not may_be_null:
            read()
            return
        with self.source.block(f"if {count} == {null}:"):
            line(f"{target} = None")
            if self._flexible:
                line("p += 1")
        with self.source.block("else:"):
            read()

    def _list(self, element: WireType, target: str, may_be_null: bool, path: str) -> None:
        line = self.source.line
        count = self._length("i", path)
        if self._flexible:
            line("p += 1")
            line(f"{count} -= 1")
        # An element has at least the width of its fixed part, or one byte, so a larger count cannot be right.
        width = _width(element.code) if isinstance(element, FixedWidth) else 1
        refuse = f"raise ValueError(f'{{{count}}} elements are impossible with {{end - p}} bytes left')"
        line(f"if {count} * {width} > end - p or {count} < {-1 if may_be_null else 0}: {refuse}")
        if not may_be_null:
            self._elements(element, target, count, path)
            return
        with self.source.block(f"if {count} < 0:"):
            line(f"{target} = None")
        with self.source.block("else:"):
            self._elements(element, target, count, path)

    def _elements(self, element: WireType, target: str, count: str, path: str) -> None:
        line = self.source.line
        line(f"left -= {count}")
        line("if left < 0: raise ValueError('its arrays have too many entries')")
        if isinstance(element, FixedWidth) and len(element.code) == 1:
            line(f"{target} = list(unpack_from(f'>{{{count}}}{element.code}', b, p))")
            line(f"p += {count} * {_width(element.code)}")
            return
        line(f"{target} = []")
        append = self.source.fresh("add")
        line(f"{append} = {target}.append")
        with self.source.block(f"for _ in range({count}):"):
            if isinstance(element, type):
                line(f"{append}({self.structure(element, path + '[].')})")
            else:
                item = self.source.fresh("v")
                self._value(element, item, False, path + "[]")
                self._unpack_fixed()
                line(f"{append}({item})")

    def _nested(self, structure: type[Structure], target: str, may_be_null: bool, path: str) -> None:
        line = self.source.line
        if not may_be_null:
            self._unpack_fixed()
            line(f"{target} = {self.structure(structure, path + '.')}")
            return
        present = self.source.fresh("n")
        self._fixed.append(("b", present, path))
        self._unpack_fixed()
        with self.source.block(f"if {present} == -1:"):
            line(f"{target} = None")
        with self.source.block("else:"):
            line(f"if {present} != 1: raise ValueError(f'{{{present}}} marks neither a structure nor a null')")
            line(f"{target} = {self.structure(structure, path + '.')}")

    def _tagged_section(self, fields: list[MessageField], path: str) -> list[str]:
        """Generate code that reads the tagged fields of a structure. Returns the arguments for its constructor, as
        source."""
        line = self.source.line
        if not fields:
            line("if b[p]: p = skip_tagged_fields(b, p)", path + "(tagged fields)")
            line("else: p += 1")
            return []
        targets = {field.name: self.source.fresh("v") for field in fields}
        for field in fields:
            default = "[]" if field.default == [] else self.source.constant("default", field.default)
            line(f"{targets[field.name]} = {default}")
        count, tag, size, stop = (self.source.fresh(stem) for stem in ("n", "tag", "size", "q"))
        line(f"{count}, p = long_uvarint(b, p)", path + "(tagged fields)")
        line(f"refuse_many_tagged_fields({count})")
        line("p += 1")
        with self.source.block(f"for _ in range({count}):"):
            line(f"{tag}, p = long_uvarint(b, p)", path + "(tagged fields)")
            line(f"{size}, p = long_uvarint(b, p + 1)")
            line("p += 1")
            line(f"{stop} = p + {size}")
            line(f"if {stop} > end: raise ValueError(f'a tagged field of {{{size}}} bytes goes past the end')")
            for index, field in enumerate(fields):
                with self.source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    self._value(field.type, targets[field.name], self._version in field.nullable, path + field.name)
                    self._unpack_fixed()
            line(f"else: p = {stop}")
            line(f"if p != {stop}: raise ValueError(f'a tagged field is not {{{size}}} bytes long')")
        return [f"{name}={target}" for name, target in targets.items()]


def _width(codes: str) -> int:
    return struct.calcsize(">" + codes)
