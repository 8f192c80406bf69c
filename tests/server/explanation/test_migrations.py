"""What is said of a group that changes its protocol."""

from regroup.server.explanation.explain import explain_event, explain_group
from regroup.server.explanation.history import read_known_history
from regroup.storage.memory import MemoryStore
from tests.server.apis.test_consumer_groups import running
from tests.server.apis.test_migration import upgrade


async def test_a_downgrade_is_explained_by_the_last_heartbeat_of_the_consumer_protocol() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await upgrade(group)
        await group.beat("n1", -1)
    async with await store.open() as opened:
        history = await read_known_history(opened, "g")
        position = {record.type: record.position async for record in opened.read()}
    rebalance, *_ = explain_group(history)
    [upgraded] = explain_event(history, position["group-upgraded"])
    at = "at 22:13:20.000"
    left = f"because member n1 left {at}, because it sent ConsumerGroupHeartbeat with the member epoch -1"
    assert str(rebalance).startswith(f"A rebalance started {at}, {left}")
    joins = "the reason in the event is: a member of the consumer protocol joins."
    assert str(upgraded) == f"Group upgraded {at}, because ConsumerGroupHeartbeat of test came; {joins}"
