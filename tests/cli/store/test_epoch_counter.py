"""The counter of coordinator epochs in a store: `verify` finds what `serve` would refuse."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest


@pytest.fixture
def store(written_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written_store, tmp_path / "groups.db"))


def set_counter(store: Path, value: object) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE counters SET value = ? WHERE name = 'coordinator_epoch'", (value,))


@pytest.mark.parametrize("value", ["abc", b"\0", -5, 1.5, 2**63 - 1])
def test_a_counter_that_is_no_number_of_an_epoch_is_damage(store: Path, value: object, run_command) -> None:
    set_counter(store, value)
    code, out, err = run_command("verify", store)
    assert (code, out) == (2, "")
    assert "is damaged" in err


def test_a_counter_below_the_epoch_of_an_event_is_a_violation(store: Path, run_command) -> None:
    set_counter(store, 0)
    code, out, _ = run_command("verify", store)
    assert code == 1
    assert ", and the last one given out is 0." in out
