"""Checks the frames that SQLite has written to a write-ahead log: whether all of them are whole.

A log that another process cuts off during a commit is extended by SQLite's next write, which leaves zeros before it.
The next recovery ends there, and everything behind it is lost although it was committed.

The formats of `-wal` and `-shm` are described in https://www.sqlite.org/walformat.html.
"""

import os
import struct
import sys
from pathlib import Path
from typing import Final

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_MAGIC: Final = {b"\x37\x7f\x06\x82": "little", b"\x37\x7f\x06\x83": "big"}
"""The possible first bytes of a log, each with the byte order of the log's checksums."""
_TAIL_BYTES: Final = 8
"""How many bytes at the end of a page are looked at. If they are zero, the page may have been written behind a gap."""
_READ_BYTES: Final = 1 << 20
"""Frames are read in portions of about so many bytes."""
# The number of frames and the checksum of the last one, in the byte order of the machine.
_INDEX: Final = struct.Struct("=16x I 4x 2I")


class WalFrames:
    """The write-ahead log of one open database, and how many of its frames have been found whole."""

    def __init__(self, wal_path: Path, shm_path: Path) -> None:
        """Open the write-ahead log at `wal_path` and the shared memory file at `shm_path`.

        Raises FileNotFoundError on a file system without shared memory, where SQLite has no such log.
        """
        self.wal = os.open(wal_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._shm = os.open(shm_path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(self.wal)
            raise
        self.accept()

    def accept(self) -> None:
        """Count all frames that the log has now as whole, without checking them."""
        self._header = os.pread(self.wal, _HEADER_BYTES, 0)
        self._count, self._checksum = self._index()

    def close(self) -> None:
        os.close(self.wal)
        os.close(self._shm)

    def problem(self) -> str:
        """What another process has done to the log since the last call: `cut off`, `overwritten`, or empty."""
        header = os.pread(self.wal, _HEADER_BYTES, 0)
        count, checksum = self._index()
        first = self._count
        if header != self._header:
            if header[:4] not in _MAGIC:
                return "overwritten"
            first = 0  # After a checkpoint SQLite begins the log again, with another header.
        elif count < first or (first and self._checksum_of(first) != self._checksum):
            return "overwritten"
        self._header = header
        # The last frame from before comes again: if it was cut off, there is a gap at its end by now.
        problem = self._problem_of_frames(max(first - 1, 0), count)
        self._count, self._checksum = count, checksum
        if not problem and count and self._checksum_of(count) != checksum:
            return "overwritten"
        return problem

    def _index(self) -> tuple[int, bytes]:
        """The number of frames in the log, and the checksum of the last one, both from the shared memory file."""
        count, *checksum = _INDEX.unpack(os.pread(self._shm, _INDEX.size, 0))
        return count, struct.pack(">2I", *checksum)

    @property
    def _frame_bytes(self) -> int:
        return _FRAME_HEADER_BYTES + int.from_bytes(self._header[8:12], "big")

    def _checksum_of(self, number: int) -> bytes:
        """The checksum that is stored in a frame, counted from 1; for number 0 the one in the log's header."""
        if not number:
            return self._header[24:32]
        return os.pread(self.wal, 8, _HEADER_BYTES + (number - 1) * self._frame_bytes + 16)

    def _problem_of_frames(self, first: int, end: int) -> str:
        """What is wrong in the frames with first < number <= end, in the words of `problem`."""
        size, salt = self._frame_bytes, self._header[16:24]
        step = max(_READ_BYTES // size, 1)
        for begin in range(first, end, step):
            count = min(step, end - begin)
            frames = os.pread(self.wal, count * size, _HEADER_BYTES + begin * size)
            if len(frames) < count * size:
                return "cut off"
            for offset in range(0, len(frames), size):
                page_end = offset + size
                if frames[offset + 8 : offset + 16] != salt:
                    return "cut off"
                # Computing a checksum takes some 200 microseconds, so it is done only where a gap may end.
                may_end_a_gap = not frames[offset + 23] or not any(frames[page_end - _TAIL_BYTES : page_end])
                if may_end_a_gap:
                    seed = self._checksum_of(begin + offset // size)
                    if self._computed_checksum(seed, frames[offset:page_end]) != frames[offset + 16 : offset + 24]:
                        return "cut off"
        return ""

    def _computed_checksum(self, seed: bytes, frame: bytes) -> bytes:
        """The checksum that a frame must have after one with the checksum `seed`."""
        first, second = struct.unpack(">2I", seed)
        words = memoryview(frame[:8] + frame[_FRAME_HEADER_BYTES:]).cast("I").tolist()
        if _MAGIC[self._header[:4]] != sys.byteorder:
            words = [int.from_bytes(word.to_bytes(4, "little"), "big") for word in words]
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        return struct.pack(">2I", first, second)
