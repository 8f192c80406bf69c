"""A client of a broker that has the topic `orders`."""

import pytest


@pytest.fixture
async def client(harness):
    await harness.create_topic("orders", 2)
    return await harness.connect()
