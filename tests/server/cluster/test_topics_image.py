"""The topics as the commands of groups carry them."""

from regroup.server.cluster.events import BROKER_START, PartitionsAdded, TopicDeleted
from tests.server.conftest import BrokerHarness


async def test_the_version_of_the_topics_grows_with_new_ones_only(harness: BrokerHarness) -> None:
    await harness.create_topic("orders")
    created = harness.state.topics_image
    harness.state.record_event(PartitionsAdded(name="orders", partitions=3), BROKER_START)
    grown = harness.state.topics_image
    topic_id = harness.state.topics["orders"].topic_id
    harness.state.record_event(TopicDeleted(name="orders", topic_id=topic_id), BROKER_START)
    deleted = harness.state.topics_image

    assert (grown.by_name["orders"].partitions, deleted.by_name) == (3, {})
    assert created.version == grown.version == deleted.version

    await harness.create_topic("orders")
    assert harness.state.topics_image.version > created.version
