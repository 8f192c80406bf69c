"""The file that `load.c` reads: connections with their requests, and what stands in the place of changing numbers."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

OFFSET: Final = 0x5A6B7C8D9EAFB0C1
"""The number that stands for an offset in a request. `load.c` writes another offset in its place each time."""
PRODUCER_ID: Final = 0x5A6B7C8D9EAFB0C2
PRODUCER_EPOCH: Final = 0x5A6B
"""The ids that stand for those of a transactional producer, whose epoch each transaction raises."""


class LoadRequest(NamedTuple):
    """A request, and the response that `load.c` expects."""

    frame: bytes
    expected: bytes
    """The response behind the correlation id, or how it begins."""
    is_whole: bool = True
    """Whether `expected` is the whole response. If not, it ends with an error code."""
    new_ids_at: int = 0
    """The place of the producer's new ids in the response, in bytes behind the correlation id; 0 for none."""
    batch_at: int = 0
    """The place of a record batch in the frame, in bytes; 0 for none."""


class LoadConnection(NamedTuple):
    """The requests of one connection, and the ids of its producer, if it has one."""

    requests: Sequence[LoadRequest]
    ids: bytes = b""


def ids_of(producer_id: int, epoch: int) -> bytes:
    """A producer's ids as all requests and responses carry them."""
    return struct.pack(">qh", producer_id, epoch)


def load_file(connections: Sequence[LoadConnection]) -> bytes:
    """The bytes of the file."""
    return packed([len(connections)]) + b"".join(part for each in connections for part in _parts_of(each))


def _parts_of(connection: LoadConnection) -> Iterator[bytes]:
    yield with_length(connection.ids)
    yield packed([len(connection.requests)])
    for request in connection.requests:
        offsets = places_of(request.frame, OFFSET.to_bytes(8, "big"))
        ids = places_of(request.frame, ids_of(PRODUCER_ID, PRODUCER_EPOCH))
        yield with_length(request.frame) + with_length(packed(offsets), 4) + with_length(packed(ids), 4)
        yield packed([request.batch_at]) + with_length(request.expected)
        yield packed([request.is_whole, request.new_ids_at])


def places_of(frame: bytes, sought: bytes) -> list[int]:
    """The places in the frame, in bytes from its start, at which these bytes stand."""
    places, at = [], frame.find(sought)
    while at >= 0:
        places.append(at)
        at = frame.find(sought, at + len(sought))
    return places


def packed(numbers: Iterable[int]) -> bytes:
    return b"".join(struct.pack("=I", each) for each in numbers)


def with_length(data: bytes, width: int = 1) -> bytes:
    return packed([len(data) // width]) + data
