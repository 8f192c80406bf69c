"""Apache Kafka as a fixture."""

from collections.abc import Iterator

import pytest

from tests.conformance.apache_kafka import ApacheKafkaBroker, KafkaUnavailable, apache_kafka
from tests.conformance.peers import FAST_SETTINGS


@pytest.fixture(scope="session")
def kafka() -> Iterator[ApacheKafkaBroker]:
    """One Apache Kafka broker for all tests that need it; they are skipped where it cannot run."""
    try:
        with apache_kafka(FAST_SETTINGS) as broker:
            yield broker
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
