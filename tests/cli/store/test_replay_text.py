"""The text of `regroup replay` about groups of the consumer protocol; `test_history.py` has those of classic ones."""

from regroup.cli.store.replay_text import groups_text
from tests.coordinator.consumer.consumer_harness import ConsumerHarness
from tests.coordinator.consumer.migration.migration_harness import MigrationHarness


def text(harness: ConsumerHarness) -> list[str]:
    names = {topic_id: topic.name for topic_id, topic in harness.topics.by_id.items()}
    return list(groups_text(7, None, [harness.group], names))[2:]


def test_a_reconciliation_shows_epochs_and_what_members_have_and_give_up() -> None:
    group, m1, m2 = text(ConsumerHarness().revoking())
    assert "Reconciling since " in group
    assert group.endswith(", group epoch 3, target of epoch 3, assignor uniform")
    assert "foo 0-2, to give up foo 3-5  (epoch 2, UNREVOKED_PARTITIONS, until " in m1
    assert m2.endswith("nothing  (epoch 3, UNRELEASED_PARTITIONS, session timeout 45s, client id c)")


def test_a_member_that_is_away_and_one_of_the_classic_protocol_are_marked() -> None:
    *_, away = text(ConsumerHarness().away())
    assert away.endswith("foo 3-5  (away, session timeout 45s, client id c, instance id i2)")
    harness = MigrationHarness()
    (classic,) = harness.classic()
    harness.mixed(classic)
    shown = text(harness)
    assert shown[1].endswith("(epoch 1, classic protocol, session timeout 10s, client id c)")


def test_an_empty_group_has_its_epochs() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    (group,) = text(harness)
    assert group.endswith(", group epoch 3, target of epoch 3")
