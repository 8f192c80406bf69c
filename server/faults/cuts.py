"""Cuts an encoded response short, for fault rules with `cut`."""

import struct
from typing import Final

from regroup.server.faults.rule import CutKind

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_END: Final = 8
"""The offset behind the correlation id: a frame begins with its length and the correlation id, four bytes each."""


def cut_frame(frame: bytearray, kind: CutKind, cut_at: float) -> bytearray:
    """The part of an encoded response that is sent: its first bytes (`frame`), or a complete frame whose body ends
    early (`body`). `FaultRule.cut` and `FaultRule.cut_at` describe it.

    The body keeps its correlation id, without which a client cannot find its request.
    """
    if kind == "frame":
        return frame[: _bytes_sent(len(frame), cut_at)]
    kept = frame[: _CORRELATION_END + _bytes_sent(len(frame) - _CORRELATION_END, cut_at)]
    _LENGTH.pack_into(kept, 0, len(kept) - _LENGTH.size)
    return kept


def _bytes_sent(size: int, cut_at: float) -> int:
    wanted = int(size * cut_at) if cut_at < 1 else int(cut_at)
    return max(0, min(wanted, size - 1))
