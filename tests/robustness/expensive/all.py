"""For every API, requests of 100 kB that cost as much as possible: repeated names, large members, maximal arrays."""

from collections.abc import Iterator

from regroup.protocol.message import Message
from tests.robustness.expensive import topics
from tests.robustness.expensive.cluster import cluster_requests
from tests.robustness.expensive.configs import config_requests
from tests.robustness.expensive.consumer_groups import consumer_group_requests
from tests.robustness.expensive.groups import group_requests
from tests.robustness.expensive.offsets import offset_requests
from tests.robustness.expensive.records import record_requests
from tests.robustness.expensive.requests import Expensive, filled, is_coroutine
from tests.robustness.expensive.transactions import transaction_requests


def expensive_requests() -> Iterator[Expensive]:
    """All of them, in an order in which topics are created before they are enlarged, and deleted at last."""
    rows = [
        *record_requests(),
        *topics.metadata_of_topics(),
        *topics.creations(),
        *topics.enlargements(),
        *config_requests(),
        *topics.deletions(),
        *offset_requests(),
        *group_requests(),
        *consumer_group_requests(),
        *transaction_requests(),
        *cluster_requests(),
    ]
    for name, version, request in rows:
        ready = isinstance(request, Message) or is_coroutine(request)
        yield Expensive(name, version, request if ready else filled(request, version))
