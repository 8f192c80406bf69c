"""`regroup verify` and others on a store in which a row was changed, deleted, or made up."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regroup.cli.main import main
from tests.cli.conftest import GROUP
from tests.cli.store.rows import change, rows_of


def test_a_good_store_verifies(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = store.read_bytes()
    assert main(["verify", str(store)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{rows_of(store)[-1][0]} events, 1 group: every invariant holds")
    assert store.read_bytes() == before
    assert not list(store.parent.glob("groups.db-*")), "reading leaves nothing behind"


def position_of(store: Path, kind: str, which: int = -1) -> int:
    return int(rows_of(store, f"SELECT position FROM events WHERE type = '{kind}' ORDER BY position")[which][0])


def forged(store: Path, kind: str, which: int, key: str, value: object) -> int:
    """Change a field of an event of this type, and return its position."""
    position = position_of(store, kind, which)
    change(store, "UPDATE events SET payload = json_set(payload, ?, ?) WHERE position = ?", f"$.{key}", value, position)
    return position


def missing(store: Path, kind: str, which: int) -> int:
    """Delete an event of this type, and return the position where that is found."""
    position = position_of(store, kind, which)
    change(store, "DELETE FROM events WHERE position = ?", position)
    return position + 1


def forged_snapshot(store: Path, group: str | None, key: str, value: object) -> int:
    """Change a field of the first snapshot of this group, or of the topics, and return its position."""
    position = first_snapshot(store, group)
    statement = 'UPDATE snapshots SET payload = json_set(payload, ?, ?) WHERE position = ? AND "group" IS ?'
    change(store, statement, f"$.{key}", value, position, group)
    return position


def first_snapshot(store: Path, group: str | None) -> int:
    which = "IS NULL" if group is None else f"= '{group}'"
    return int(rows_of(store, f'SELECT min(position) FROM snapshots WHERE "group" {which}')[0][0])


def a_generation_too_far(store: Path) -> int:
    return forged(store, "generation-started", 1, "generation_id", 9)


def a_leader_from_elsewhere(store: Path) -> int:
    return forged(store, "generation-started", 1, "leader_id", "me")


def an_event_missing(store: Path) -> int:
    return missing(store, "member-joined", 1)


def the_cluster_s_event_missing(store: Path) -> int:
    return missing(store, "topic-created", 1)


def an_unreadable_event(store: Path) -> int:
    position = position_of(store, "member-removed")
    change(store, "UPDATE events SET payload = '{}' WHERE position = ?", position)
    return position


def an_unknown_event(store: Path) -> int:
    position = position_of(store, "member-removed")
    change(store, "UPDATE events SET type = 'member-abducted' WHERE position = ?", position)
    return position


def a_false_snapshot(store: Path) -> int:
    return forged_snapshot(store, GROUP, "generation_id", 77)


def an_offset_in_the_snapshot_s_past(store: Path) -> int:
    """The fold and the first snapshot after it disagree, so the fault is found where the snapshot was taken."""
    commits = rows_of(store, "SELECT payload FROM events WHERE type = 'offsets-committed' ORDER BY position")
    which = next(n for n, (payload,) in enumerate(commits) if "0" in json.loads(payload)["offsets"]["orders"])
    forged(store, "offsets-committed", which, "offsets.orders.0.offset", 99)
    return first_snapshot(store, GROUP)


def a_topic_that_was_never_made(store: Path) -> int:
    return forged(store, "offsets-reserved", 0, "name", "refunds")


def a_partition_too_many(store: Path) -> int:
    return forged(store, "offsets-reserved", 0, "partition", 2)


def a_topic_made_twice(store: Path) -> int:
    return forged(store, "topic-created", 1, "name", "orders")


def a_false_snapshot_of_the_topics(store: Path) -> int:
    return forged_snapshot(store, None, "producer_ids_before", 7)


def a_group_without_its_snapshots(store: Path) -> int:
    """The snapshots at the first cut leave out the group."""
    change(store, 'DELETE FROM snapshots WHERE "group" = ?', GROUP)
    return first_cut(store)


def a_cut_without_snapshots(store: Path) -> int:
    change(store, "DELETE FROM snapshots")
    return first_cut(store)


def first_cut(store: Path) -> int:
    return int(rows_of(store, "SELECT min(position) FROM cuts")[0][0])


def a_snapshot_of_another_event(store: Path) -> int:
    position = first_snapshot(store, GROUP)
    change(store, 'UPDATE snapshots SET event_number = event_number + 1000 WHERE "group" = ?', GROUP)
    return position


def a_snapshot_from_elsewhere(store: Path) -> int:
    position = first_snapshot(store, GROUP)
    change(store, 'UPDATE snapshots SET position = 1 WHERE "group" = ?', GROUP)
    return position


def the_end_missing(store: Path) -> int:
    """The cuts made after it are left."""
    position = position_of(store, "member-removed")
    change(store, "DELETE FROM events WHERE position > ?", position)
    return position


def an_unreadable_cause(store: Path) -> int:
    position = position_of(store, "member-removed")
    change(store, "UPDATE events SET cause = 'because' WHERE position = ?", position)
    return position


@pytest.mark.parametrize(
    "tamper",
    [
        a_group_without_its_snapshots,
        a_cut_without_snapshots,
        a_snapshot_of_another_event,
        a_snapshot_from_elsewhere,
        the_end_missing,
        an_unreadable_cause,
        a_topic_that_was_never_made,
        a_partition_too_many,
        a_topic_made_twice,
        a_false_snapshot_of_the_topics,
        a_generation_too_far,
        a_leader_from_elsewhere,
        an_event_missing,
        the_cluster_s_event_missing,
        an_unreadable_event,
        an_unknown_event,
        a_false_snapshot,
        an_offset_in_the_snapshot_s_past,
    ],
)
def test_verify_finds_where_a_store_was_tampered_with(
    tamper: Callable[[Path], int], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    position = tamper(store)
    assert main(["verify", str(store)]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert f"The first fault is at position {position}: regroup replay " in said.out


def test_no_command_goes_on_with_snapshots_that_leave_out_a_group(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(store, 'DELETE FROM snapshots WHERE "group" = ?', GROUP)
    last = rows_of(store)[-1][0]
    for words in (
        ["replay", str(store)],
        ["serve", "--store", str(store)],
        ["trim", str(store), "--before", str(last)],
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"The snapshots leave out events of group '{GROUP}'" in said
        assert len(said.splitlines()) == 1
    assert rows_of(store)[-1][0] == last


def test_snapshots_of_another_version_are_counted_and_ignored(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", str(store)])
    before = capsys.readouterr().out
    change(store, "UPDATE snapshots SET version = 7")
    assert main(["verify", str(store)]) == 0
    assert "(2 of another version were ignored)" in capsys.readouterr().out
    assert main(["replay", str(store)]) == 0
    assert capsys.readouterr().out == before


def test_a_last_event_number_that_is_not_a_number_is_damage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(store, "UPDATE events SET event_number = 'abc' WHERE position = ?", rows_of(store)[-1][0])
    for word in ("verify", "replay", "serve"):
        assert main([word, *(["--store"] if word == "serve" else []), str(store)]) == 2
        assert "has the event_number 'abc'. Restore it from a copy." in capsys.readouterr().err


def test_an_event_type_that_is_not_text_is_damage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(store, "UPDATE events SET type = cast(x'ff41' AS text) WHERE position = 5")
    assert main(["verify", str(store)]) == 2
    assert "is damaged" in capsys.readouterr().err
