"""The orders in which Java puts strings, where Kafka's answers show them."""

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@lru_cache(maxsize=8192)  # a group rebalances again and again with the same names
def utf16_order(text: str) -> bytes:
    """The sort key with which Python orders strings as Java does; it differs from `text` beyond U+D7FF."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=8192)
def java_string_hash(text: str) -> int:
    """`String.hashCode()` as an unsigned number of 32 bits."""
    units = utf16_order(text)
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def java_partition_hash(partition: tuple[str, int]) -> int:
    """`TopicPartition.hashCode()`, likewise."""
    topic, number = partition
    return 31 * (31 + number) + java_string_hash(topic) & 0xFFFFFFFF


def java_hash_map_order(keys: Iterable[str], counted: int | None = None) -> list[str]:
    """The distinct `keys` in the order in which a `java.util.HashMap` that got them in this order walks them.

    Two places of Kafka's client show this order: a leader walks its members so, and `sticky` writes its topics so.
    `counted` is how many keys the map held when it last looked whether to grow: all of them where it was filled with
    `put`, which is what None means. Within a bucket the order is that of insertion.
    """
    return in_hash_map_order(dict.fromkeys(keys), java_string_hash, counted)


def in_hash_map_order(keys: Iterable[Key], hash_code: Callable[[Key], int], counted: int | None = None) -> list[Key]:
    """The same for distinct keys of any kind."""
    distinct = list(keys)
    if len(distinct) < 2:
        return distinct
    last_bucket, grows_beyond = 15, 12
    while (len(distinct) if counted is None else counted) > grows_beyond:
        last_bucket, grows_beyond = 2 * last_bucket + 1, 2 * grows_beyond
    return sorted(distinct, key=lambda key: ((code := hash_code(key)) ^ code >> 16) & last_bucket)
