"""Requests that no client library sends, to Apache Kafka and to regroup: both give the same answers.

Each exchange is a function that sends requests to one broker and returns what is compared. Ids that a broker draws are
replaced; texts of errors are compared only as null, empty or present, because regroup's are its own.
"""

from collections.abc import Iterator

import pytest

from regroup.protocol.messages import cluster as c
from tests.conformance.apache_kafka import ApacheKafkaBroker
from tests.conformance.peers import FAST_SETTINGS, RegroupBroker, regroup_broker
from tests.conformance.same_answers import cluster, groups, offsets, transactions
from tests.conformance.same_answers.probe import Exchange, probe_of

pytestmark = pytest.mark.slow

EXCHANGES = [*offsets.EXCHANGES, *transactions.EXCHANGES, *groups.EXCHANGES, *cluster.EXCHANGES]


@pytest.fixture(scope="module")
def regroup() -> Iterator[RegroupBroker]:
    with regroup_broker(FAST_SETTINGS | {"offsets.topic.num.partitions": "4"}) as broker:
        yield broker


@pytest.mark.parametrize("send", EXCHANGES, ids=lambda each: each.__name__)
async def test_both_brokers_give_the_same_answers(
    kafka: ApacheKafkaBroker, regroup: RegroupBroker, send: Exchange
) -> None:
    async with probe_of(kafka.address) as theirs, probe_of(regroup.address) as ours:
        assert await send(ours) == await send(theirs)


async def test_regroup_serves_the_versions_of_the_newest_release(
    kafka: ApacheKafkaBroker, regroup: RegroupBroker
) -> None:
    request = c.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    async with probe_of(kafka.address) as theirs, probe_of(regroup.address) as ours:
        found = [await probe.call(request, 5) for probe in (ours, theirs)]
    ours_rows, their_rows = ({each.api_key: each for each in response.api_keys} for response in found)
    assert ours_rows == {key: their_rows[key] for key in ours_rows}
    for field in ("supported_features", "finalized_features"):
        ours_rows, their_rows = ({each.name: each for each in getattr(response, field)} for response in found)
        assert ours_rows == {name: their_rows[name] for name in ("group.version", "transaction.version")}
