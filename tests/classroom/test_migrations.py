"""The story of a group whose members change the protocol."""

from regroup.classroom.reading import read_timelines
from regroup.classroom.story import story_lines
from regroup.storage.memory import MemoryStore
from tests.coordinator.consumer.migration.migration_harness import ALL
from tests.server.apis.test_consumer_groups import running
from tests.server.apis.test_migration import join, sync, upgrade


async def test_a_story_says_when_a_group_changes_its_protocol_and_what_classic_members_have_to_do() -> None:
    store = MemoryStore()
    async with running(store) as group:
        c = await upgrade(group)
        c = await join(group, c.member_id, ALL)
        await sync(group, c)
        await group.beat("n1", -1)
    timelines = await read_timelines(await store.open(), ["g"])
    story = "\n".join(str(line.text) for line in story_lines(timelines["g"]))
    assert "The group became one of the consumer protocol." in story
    assert "has to give up foo 3-5 and to join again; it stays at epoch 1 and keeps foo 0-2." in story
    assert "The group became a classic group." in story
