"""The compiler of encoders: generates and compiles a Python function that encodes one version of a message.

What a generated function looks like (HeartbeatRequest v4, shortened):

    def made(m, out):
        try:
            v1 = m.group_id.encode()
            n2 = len(v1) + 1
            if n2 < 128: out.append(n2)
            else: put_uvarint(out, n2)
            out += v1
            out += pack_i(m.generation_id)
            ...
        except FAULTS as error:
            raise unencodable(error) from None

A value that the version cannot carry is refused unless its field is ignorable, and so is a null that it cannot carry.

A long message is encoded in turns, by a generator with the same body: `made(m, out, stop)` yields after an element of
an array when `out` is longer than `stop`, and is sent the next `stop`.
"""

import struct
from collections.abc import Callable
from typing import Any

from regroup.protocol.codec.source import Source, failing_path
from regroup.protocol.exceptions import Unencodable
from regroup.protocol.fields import FixedWidth, LengthPrefixed
from regroup.protocol.message import ListOf, Message, MessageField, Structure, WireType, fields_of

FAULTS = (AttributeError, TypeError, ValueError, struct.error)


def put_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint: seven bits in each byte, the lowest first."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def compile_encoder(message: type[Message], version: int, *, in_turns: bool = False) -> Callable[..., Any]:
    """Generate and compile, for one version, the function `encode(message, out)` or, with `in_turns`, the generator
    `encode(message, out, stop)`. Both raise Unencodable."""
    generator = _EncoderGenerator(version, version in message.flexible, in_turns)
    source = generator.source
    with source.block("try:"):
        source.line("if False: yield" if in_turns else "pass")
        generator.structure(message, "m", "")
        generator.pack_fixed()
    with source.block("except FAULTS as error:"):
        source.line("raise unencodable(error) from None")
    title = f"{message.__name__} v{version}"

    def unencodable(error: Exception) -> Unencodable:
        path = failing_path(source.paths, error)
        reason = "it may not be null in this version" if "None" in str(error) else error
        return Unencodable(f"{title} cannot carry {path}: {reason}")

    helpers = {"FAULTS": FAULTS, "unencodable": unencodable, "put_uvarint": put_uvarint}
    return source.compile(f"encode {title}", helpers)


class _EncoderGenerator:
    """Generates the source of an encoder's body. Adjacent values of fixed width are collected in `_fixed`, so that the
    generated code packs them in one call.

    In its methods, `path` is the name of a message field in error messages.
    """

    def __init__(self, version: int, flexible: bool, in_turns: bool) -> None:
        self.source = Source("def made(m, out, stop):" if in_turns else "def made(m, out):")
        self._version = version
        self._flexible = flexible
        self._in_turns = in_turns
        self._fixed: list[tuple[str, str, str]] = []
        """Values for which no code has been generated yet: the format character, expression and path of each."""
        self._out = "out"

    def structure(self, structure: type[Structure], owner: str, path: str) -> None:
        """Generate code that writes all fields of the structure that the variable `owner` holds."""
        fields = fields_of(structure)
        for field in fields:
            if self._version not in field.carried and not field.ignorable:
                self._refuse_value(field, owner, path)
        carried = [field for field in fields if self._version in field.carried]
        for field in carried:
            if field.tag is None:
                may_be_null = self._version in field.nullable
                self._value(field.type, f"{owner}.{field.name}", may_be_null, path + field.name)
        if self._flexible:
            self._tagged_section([field for field in carried if field.tag is not None], owner, path)

    def pack_fixed(self) -> None:
        """Generate code that writes the collected values of fixed width, and empty the collection."""
        if not self._fixed:
            return
        path = self._fixed[0][2]
        codes = "".join(code for code, _, _ in self._fixed)
        values = [value for _, value, _ in self._fixed]
        if all(value.isdecimal() for value in values):
            self.source.line(f"{self._out} += {struct.pack('>' + codes, *map(int, values))!r}", path)
        else:
            self.source.line(f"{self._out} += {self.source.struct('pack', codes)}({', '.join(values)})", path)
        self._fixed.clear()

    def _default(self, field: MessageField) -> str:
        return "[]" if field.default == [] else self.source.constant("default", field.default)

    def _refuse_value(self, field: MessageField, owner: str, path: str) -> None:
        default, value = self._default(field), f"{owner}.{field.name}"
        differs = f"{value} is not None" if field.default is None else f"{value} != {default}"
        reason = f"the field exists only in versions {field.carried}, so it must keep its default"
        self.source.line(f"if {differs}: raise ValueError({reason!r})", path + field.name)

    def _value(self, wire_type: WireType, expression: str, may_be_null: bool, path: str) -> None:
        if isinstance(wire_type, FixedWidth):
            self._fixed.append((wire_type.code, expression, path))
            return
        if not expression.isidentifier():
            value = self.source.fresh("v")
            self.source.line(f"{value} = {expression}", path)
            expression = value
        if not may_be_null:
            self._present(wire_type, expression, path)
            return
        self.pack_fixed()
        with self.source.block(f"if {expression} is None:", path):
            self.source.line(f"{self._out} += {self._null(wire_type)!r}")
        with self.source.block("else:"):
            if isinstance(wire_type, type):
                self._fixed.append(("b", "1", path))
            self._present(wire_type, expression, path)
            self.pack_fixed()

    def _null(self, wire_type: WireType) -> bytes:
        if isinstance(wire_type, type):
            return b"\xff"
        if self._flexible:
            return b"\0"
        return struct.pack(f">{wire_type.length_code if isinstance(wire_type, LengthPrefixed) else 'i'}", -1)

    def _present(self, wire_type: WireType, value: str, path: str) -> None:
        """Generate code that writes a value that is not null and has no fixed width. `value` is the expression for
        it."""
        match wire_type:
            case LengthPrefixed(length_code, is_text):
                if is_text:
                    self.source.line(f"{value} = {value}.encode()", path)
                self._length(length_code, value, path)
                self.pack_fixed()
                self.source.line(f"{self._out} += {value}", path)
            case ListOf(element):
                self._length("i", value, path)
                self.pack_fixed()
                self._elements(element, value, path)
            case FixedWidth():
                raise AssertionError("values of fixed width are packed together")
            case _:
                self.structure(wire_type, value, path + ".")

    def _length(self, length_code: str, value: str, path: str) -> None:
        if not self._flexible:
            self._fixed.append((length_code, f"len({value})", path))
            return
        self.pack_fixed()
        count = self.source.fresh("n")
        self.source.line(f"{count} = len({value}) + 1", path)
        self.source.line(f"if {count} < 128: {self._out}.append({count})")
        self.source.line(f"else: put_uvarint({self._out}, {count})")

    def _elements(self, element: WireType, value: str, path: str) -> None:
        if isinstance(element, FixedWidth) and len(element.code) == 1:
            pack = self.source.constant("pack", struct.pack)
            self.source.line(f"{self._out} += {pack}(f'>{{len({value})}}{element.code}', *{value})", path)
            return
        item = self.source.fresh("e")
        with self.source.block(f"for {item} in {value}:", path):
            if isinstance(element, type):
                self.structure(element, item, path + "[].")
            else:
                self._value(element, item, False, path + "[]")
            self.pack_fixed()
            if (
                self._in_turns and self._out == "out"
            ):  # tagged fields are short, and are written to a buffer of their own
                self.source.line("if len(out) > stop: stop = yield")

    def _tagged_section(self, fields: list[MessageField], owner: str, path: str) -> None:
        if not fields:
            self._fixed.append(("B", "0", path + "(tagged fields)"))
            return
        self.pack_fixed()
        line = self.source.line
        count, section = self.source.fresh("n"), self.source.fresh("tags")
        line(f"{count} = 0")
        line(f"{section} = bytearray()")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            self._tagged_field(field, owner, count, section, path + field.name)
        line(f"put_uvarint({self._out}, {count})")
        line(f"{self._out} += {section}")

    def _tagged_field(self, field: MessageField, owner: str, count: str, section: str, path: str) -> None:
        line = self.source.line
        value, body, outer = self.source.fresh("v"), self.source.fresh("body"), self._out
        default = self._default(field)
        line(f"{value} = {owner}.{field.name}", path)
        with self.source.block(f"if {value} != {default}:"):
            line(f"{body} = bytearray()")
            self._out = body
            self._value(field.type, value, self._version in field.nullable, path)
            self.pack_fixed()
            self._out = outer
            line(f"{count} += 1")
            line(f"put_uvarint({section}, {field.tag})")
            line(f"put_uvarint({section}, len({body}))")
            line(f"{section} += {body}")
