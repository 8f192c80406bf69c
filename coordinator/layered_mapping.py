"""A mapping that shares what has not changed with the mapping it was made of, so that a small change costs little.

A group may have offsets of ten thousand partitions or thousands of members, and `evolve` changes no value that it has
made before. A copy of a dict for each change would cost more the more entries it has.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, compress
from operator import is_not
from typing import Any, Final, Generic, TypeVar, cast

Key = TypeVar("Key")
Value = TypeVar("Value")

LAYERED_FROM: Final = 256
"""Mappings with fewer entries are dicts, which are quicker to copy."""


class LayeredMapping(Mapping[Key, Value], Generic[Key, Value]):
    """An immutable mapping: a dict that many share, the keys of it that were removed, and a small dict over both with
    what is newer.

    It iterates in the order of a dict in which the same entries were set and removed in the same order, and equals that
    dict. A key that was removed and set again is therefore in `removed` and among the newer ones.
    """

    __slots__ = ("_newer", "_removed", "_shared")

    def __init__(self, shared: dict[Key, Value], newer: dict[Key, Value], removed: dict[Key, None]) -> None:
        self._shared, self._newer, self._removed = shared, newer, removed

    def with_newer(self, newer: Mapping[Key, Value]) -> "LayeredMapping[Key, Value]":
        """A mapping with all entries of this one and of `newer`; where both have a key, the value of `newer` counts."""
        return self._layered({**self._newer, **newer}, self._removed)

    def without(self, key: Key) -> "LayeredMapping[Key, Value]":
        """A mapping with all entries of this one except that of `key`. This mapping must have the key."""
        newer = {each: value for each, value in self._newer.items() if each != key}
        return self._layered(newer, {**self._removed, key: None} if key in self._shared else self._removed)

    def _layered(self, newer: dict[Key, Value], removed: dict[Key, None]) -> "LayeredMapping[Key, Value]":
        """A mapping with the same shared dict and these layers: `newer` entries, and keys `removed` from the shared
        dict. If the layers have at least the square root of its number of entries, all are joined into one new dict."""
        changed = LayeredMapping(self._shared, newer, removed)
        if (len(newer) + len(removed)) ** 2 < len(self._shared):
            return changed
        return LayeredMapping(changed.as_dict(), {}, {})

    def as_dict(self) -> dict[Key, Value]:
        """A dict with the same entries in the same order."""
        joined = dict(self._shared)
        for key in self._removed:
            del joined[key]
        joined.update(self._newer)
        return joined

    def shares_with(self, other: "LayeredMapping[Key, Value]") -> bool:
        """Whether this mapping and the other one are layers over the same dict: only keys in the layers can differ."""
        return self._shared is other._shared

    def changed_since(self, former: "LayeredMapping[Key, Value]") -> dict[Key, Value]:
        """The entries whose values are others than in `former`, compared by identity. `shares_with` must hold."""
        shared, newer, before = self._shared, self._newer, former._newer
        if self._removed or former._removed:
            keys = chain(newer, self._removed, before, former._removed)
            return {key: self[key] for key in keys if key in self and self[key] is not former.get(key)}
        found = {
            key: value
            for key, value in newer.items()
            if value is not (before[key] if key in before else shared.get(key))
        }
        for key, value in before.items():
            if key not in newer and key in shared and shared[key] is not value:
                found[key] = shared[key]
        return found

    def added_since(self, former: "LayeredMapping[Key, Value]") -> set[Key]:
        """The keys that `former` has not. `shares_with` must hold."""
        shared, before = self._shared, former._newer
        if self._removed or former._removed:
            return {key for key in chain(self._newer, former._removed) if key in self and key not in former}
        return {key for key in self._newer if key not in before and key not in shared}

    def __getitem__(self, key: Key) -> Value:
        if key in self._newer:
            return self._newer[key]
        if key in self._removed:
            raise KeyError(key)
        return self._shared[key]

    def __contains__(self, key: object) -> bool:
        return key in self._newer or (key in self._shared and key not in self._removed)

    def __iter__(self) -> Iterator[Key]:
        shared, removed = self._shared, self._removed
        yield from (key for key in shared if key not in removed) if removed else shared
        yield from (key for key in self._newer if key not in shared or key in removed)

    def __reversed__(self) -> Iterator[Key]:
        shared, removed = self._shared, self._removed
        yield from (key for key in reversed(self._newer) if key not in shared or key in removed)
        yield from (key for key in reversed(shared) if key not in removed) if removed else reversed(shared)

    def __len__(self) -> int:
        new = sum([key not in self._shared or key in self._removed for key in self._newer])
        return len(self._shared) - len(self._removed) + new

    def __repr__(self) -> str:
        return repr(self.as_dict())


# The functions below compare types with `is`: isinstance of a class that is derived from an abstract one is slow.


def with_newer(present: Mapping[Key, Value], newer: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """Both mappings together, as `{**present, **newer}`; where both have a value, the newer one counts."""
    if type(present) is LayeredMapping:
        return present.with_newer(newer)
    if len(present) < LAYERED_FROM:
        return {**present, **newer}
    return LayeredMapping(dict(present), {}, {}).with_newer(newer)


def without(present: Mapping[Key, Value], key: Key | None) -> Mapping[Key, Value]:
    """The mapping without one key, and the same mapping if it does not have the key."""
    if key is None or key not in present:
        return present
    if type(present) is LayeredMapping:
        return present.without(key)
    if len(present) >= LAYERED_FROM:
        return LayeredMapping(dict(present), {}, {}).without(key)
    left = dict(present)
    del left[key]
    return left


def keys_from_end(mapping: Mapping[Key, Any]) -> Iterator[Key]:
    """The keys of a dict or LayeredMapping, the last one first."""
    return reversed(cast("dict[Key, Any]", mapping))


def keys_in_order(mapping: Mapping[Key, Any]) -> list[Key]:
    """The keys of a mapping in its order, as `list(mapping)`, and much quicker for a LayeredMapping."""
    return list(_plain(mapping))


def changed(before: Mapping[Key, Value], after: Mapping[Key, Value]) -> dict[Key, Value]:
    """The entries of `after` whose values are others than in `before`, compared by identity."""
    if before is after:
        return {}
    if type(after) is LayeredMapping and type(before) is LayeredMapping and after.shares_with(before):
        return after.changed_since(before)
    plain, former = _plain(after), _plain(before)
    return dict(compress(plain.items(), map(is_not, plain.values(), map(former.get, plain))))


def added_keys(before: Mapping[Key, Any], after: Mapping[Key, Any]) -> Collection[Key]:
    """The keys that `after` has and `before` has not, in no particular order."""
    if before is after:
        return ()
    if type(after) is LayeredMapping and type(before) is LayeredMapping and after.shares_with(before):
        return after.added_since(before)
    return _plain(after).keys() - _plain(before).keys()


def _plain(mapping: Mapping[Key, Value]) -> Mapping[Key, Value]:
    return mapping.as_dict() if type(mapping) is LayeredMapping else mapping


def as_builtin(value: Any) -> Any:
    """Convert a LayeredMapping to a dict: the hook that msgspec calls for a value whose type it cannot encode. Raises
    NotImplementedError for any other type."""
    if type(value) is LayeredMapping:
        return value.as_dict()
    raise NotImplementedError(f"cannot encode {type(value).__name__}")
