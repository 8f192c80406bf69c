"""A mapping that shares what has not changed with the mapping it was made of, so that a small change costs little.

A group may have offsets of ten thousand partitions, and `evolve` changes no value that it has made before. A copy of a
dict for each commit would cost more the more offsets the group has.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

LAYERED_FROM: Final = 256
"""Mappings with fewer entries are dicts, which are quicker to copy."""


class LayeredMapping(Mapping[Key, Value], Generic[Key, Value]):
    """An immutable mapping: a dict that many share, and over it a small one with what is newer.

    It iterates in the order of a dict that got the same entries in the same order, and equals that dict.
    """

    __slots__ = ("_newer", "_shared")

    def __init__(self, shared: dict[Key, Value], newer: dict[Key, Value]) -> None:
        self._shared, self._newer = shared, newer

    def with_newer(self, newer: Mapping[Key, Value]) -> "LayeredMapping[Key, Value]":
        """The mapping with these entries. Both dicts are joined once the newer one has as many as the root of all."""
        both = {**self._newer, **newer}
        if len(both) ** 2 < len(self._shared):
            return LayeredMapping(self._shared, both)
        return LayeredMapping({**self._shared, **both}, {})

    def __getitem__(self, key: Key) -> Value:
        return self._newer[key] if key in self._newer else self._shared[key]

    def __iter__(self) -> Iterator[Key]:
        yield from self._shared
        for key in self._newer:
            if key not in self._shared:
                yield key

    def __len__(self) -> int:
        return len(self._shared) + len(self._newer.keys() - self._shared.keys())

    def __repr__(self) -> str:
        return repr(dict(self))


def with_newer(present: Mapping[Key, Value], newer: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """Both mappings together, as `{**present, **newer}`; where both have a value, the newer one counts."""
    if isinstance(present, LayeredMapping):
        return present.with_newer(newer)
    if len(present) < LAYERED_FROM:
        return {**present, **newer}
    return LayeredMapping(dict(present), {}).with_newer(newer)


def as_builtin(value: Any) -> Any:
    """A value that msgspec does not know, as one that it does: its hook for encoding."""
    if isinstance(value, LayeredMapping):
        return dict(value)
    raise NotImplementedError(f"cannot encode {type(value).__name__}")
