"""Decodes the input of an endpoint from the query or the body of a request."""

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from regroup.control.endpoints.endpoint import ControlEndpoint
from regroup.control.errors import ControlRefused, Status

_TUPLE_FIELDS: dict[type[msgspec.Struct], frozenset[str]] = {}


def input_of_query(endpoint: ControlEndpoint, pairs: Iterable[tuple[str, str]]) -> Any:
    """Decode the input of an endpoint from the query of a URL, given as pairs of name and value. Raises ControlRefused,
    or ValidationError."""
    wanted = endpoint.input_type
    repeatable = _repeatable(wanted)
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in repeatable:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ControlRefused(Status.INVALID, f"the query has {name} twice")
        else:
            given[name] = value
    decoded = msgspec.convert(given, wanted, strict=False)
    for name in wanted.__struct_fields__:
        value = getattr(decoded, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ControlRefused(Status.INVALID, f"invalid {name}: {given[name]!r}; give a number")
    return decoded


def _repeatable(wanted: type[msgspec.Struct]) -> frozenset[str]:
    """The names of those fields of an input that are lists. A query may contain these names several times."""
    if wanted not in _TUPLE_FIELDS:
        described = msgspec.inspect.type_info(wanted)
        fields = described.fields if isinstance(described, msgspec.inspect.StructType) else ()
        _TUPLE_FIELDS[wanted] = frozenset(
            field.name for field in fields if isinstance(_bare(field.type), msgspec.inspect.VarTupleType)
        )
    return _TUPLE_FIELDS[wanted]


def _bare(described: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return described.type if isinstance(described, msgspec.inspect.Metadata) else described


def input_of_body(endpoint: ControlEndpoint, body: bytes) -> Any:
    """Decode the input of an endpoint from the JSON body of a request; an empty body counts as an empty object. Raises
    DecodeError or ValidationError."""
    try:
        return msgspec.json.decode(body or b"{}", type=endpoint.input_type)
    except UnicodeDecodeError as error:
        raise ControlRefused(Status.INVALID, f"the body is not UTF-8: {error.reason}") from None
