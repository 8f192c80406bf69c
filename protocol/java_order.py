"""Java's hashes and orders: of strings, and of the keys of hash maps, where Kafka's results depend on them."""

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul
from typing import Final, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


_MAX_CACHED_LENGTH = 300
"""The most characters of a text that the caches below keep; clients could fill hundreds of megabytes with longer
ones."""
_HASH_WEIGHTS: Final = tuple(
    accumulate(repeat(31, _MAX_CACHED_LENGTH), lambda power, base: power * base & 0xFFFFFFFF, initial=1)
)
"""By which Java's hash multiplies the last UTF-16 code unit of a text, the last but one, and so on."""


def utf16_order(text: str) -> bytes:
    """The sort key for Java's order of strings, by UTF-16 code unit; it differs from Python's beyond U+D7FF."""
    return _cached_utf16_order(text) if len(text) <= _MAX_CACHED_LENGTH else _utf16_order(text)


def _utf16_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


_cached_utf16_order = lru_cache(maxsize=8192)(_utf16_order)  # every rebalance of a group uses the same names


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode()` of a text, as an unsigned 32-bit integer."""
    return _cached_java_string_hash(text) if len(text) <= _MAX_CACHED_LENGTH else _java_string_hash(text)


def _java_string_hash(text: str) -> int:
    if text.isascii() and len(text) <= len(_HASH_WEIGHTS):  # four times as fast, for groups of thousands of members
        weighted: int = sum(map(mul, reversed(text.encode()), _HASH_WEIGHTS))
        return weighted & 0xFFFFFFFF
    units = utf16_order(text)
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


_cached_java_string_hash = lru_cache(maxsize=8192)(_java_string_hash)


def java_partition_hash(partition: tuple[str, int]) -> int:
    """Kafka's `TopicPartition.hashCode()` of a topic and a partition index, as an unsigned 32-bit integer."""
    topic, number = partition
    return 31 * (31 + number) + java_string_hash(topic) & 0xFFFFFFFF


def java_hash_map_order(keys: Iterable[str], counted: int | None = None) -> list[str]:
    """The distinct `keys`, in the iteration order of a `java.util.HashMap` that they were inserted into in this order.

    Kafka's client shows this order in two places: a leader iterates its members so, and `sticky` writes its topics so.
    `counted` is the size of the map when it last checked whether to grow; None means that all keys had been counted, as
    after `put`. Keys in the same bucket keep the order of insertion.
    """
    return in_hash_map_order(dict.fromkeys(keys), java_string_hash, counted)


def in_hash_map_order(keys: Iterable[_Key], hash_code: Callable[[_Key], int], counted: int | None = None) -> list[_Key]:
    """The iteration order of a `java.util.HashMap` as in `java_hash_map_order`, for distinct keys of any type, given
    their hash function."""
    distinct = list(keys)
    if len(distinct) < 2:
        return distinct
    last_bucket = hash_map_buckets(len(distinct) if counted is None else counted) - 1
    return sorted(distinct, key=lambda key: ((code := hash_code(key)) ^ code >> 16) & last_bucket)


def hash_map_buckets(size: int) -> int:
    """The number of buckets of a `java.util.HashMap` that has grown to this size."""
    buckets = 16
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets
