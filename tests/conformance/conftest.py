"""The scripts beside the tests are modules for them, and Apache Kafka is a fixture."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from apache_kafka import ApacheKafka, NotAvailable, apache_kafka
from peers import ROOMY


@pytest.fixture(scope="session")
def kafka() -> Iterator[ApacheKafka]:
    """One Apache Kafka broker for all tests that ask for it; they are skipped where it cannot run."""
    try:
        with apache_kafka(ROOMY) as broker:
            yield broker
    except NotAvailable as reason:
        pytest.skip(str(reason))
