"""What holds for every test."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def nobody_inherits_a_log() -> Iterator[None]:
    """Whoever sets up the log, as `regroup serve` does, sets it up for himself."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
