"""What is said of a group that changes its protocol."""

from regroup.server.explanation.explain import explain_event, explain_group
from regroup.server.explanation.history import read_known_history
from regroup.server.explanation.sentences import Explanation
from regroup.storage.memory import MemoryStore
from tests.server.apis.test_consumer_groups import running
from tests.server.apis.test_migration import upgrade


def text_of(explanation: Explanation) -> str:
    """The sentence and its reasons in one line."""
    return ", because ".join([explanation.sentence, *(text_of(each) for each in explanation.because)])


async def test_a_downgrade_is_explained_by_the_last_heartbeat_of_the_consumer_protocol() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await upgrade(group)
        await group.beat("n1", -1)
    async with await store.open() as opened:
        history = await read_known_history(opened, "g")
        position = {record.type: record.position async for record in opened.read()}
    rebalance = text_of(explain_group(history)[0])
    assert "a rebalance started" in rebalance
    assert "member n1 left" in rebalance
    assert rebalance.endswith("it sent ConsumerGroupHeartbeat with the member epoch -1")
    upgraded = text_of(explain_event(history, position["group-upgraded"])[0])
    assert "the reason in the event is: a member of the consumer protocol joins" in upgraded
