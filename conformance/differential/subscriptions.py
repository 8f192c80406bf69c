"""Lists of assignors with subscriptions that members of random courses send: valid ones and damaged ones."""

import struct
from typing import Final

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, FOO_TOPIC
from regroup.conformance.harness.story import subscription_of

BAR = subscription_of(BAR_TOPIC)
BOTH = subscription_of(FOO_TOPIC, BAR_TOPIC)


def with_version(subscription: bytes, version: int) -> bytes:
    """An encoded subscription whose version, its first two bytes, is replaced by another; the rest is unchanged."""
    return struct.pack(">h", version) + subscription[2:]


ASSIGNOR_LISTS: Final[tuple[tuple[tuple[str, bytes], ...], ...]] = (
    (("range", BAR), ("roundrobin", BAR)),
    (("range", BOTH), ("roundrobin", BAR)),
    (("roundrobin", BAR), ("range", BAR)),
    (("range", BAR),),
    (("range", b"no subscription"), ("roundrobin", subscription_of(FOO_TOPIC))),
    (("range", b""), ("roundrobin", BAR)),
    (("range", BOTH[:-9]), ("roundrobin", BAR)),
    (("range", with_version(BAR, 99)), ("roundrobin", BAR)),
    (("range", with_version(BAR, -1)), ("roundrobin", BAR)),
    (("range", BAR + b"\x00\x07more"), ("roundrobin", BAR)),
    (("roundrobin", BAR),),
)
"""The lists of assignors, with the metadata of each, that a JoinGroup may have. Most requests use the first list."""

PROPER_LISTS: Final = 4
"""How many of the first lists are valid: their subscriptions can be read, and they have an assignor in common."""
