"""`regroup events` for a group that does not exist, or not yet."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import GROUP, RunCommand
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S
from tests.clients.libraries import ConsumerOptions
from tests.clients.processes import Consume, Serve


@pytest.mark.slow
@pytest.mark.usefixtures("default_sigint")
def test_a_group_can_be_followed_before_it_exists(serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:1")
    words = [REGROUP_COMMAND, "events", emulator.store, "--follow", "--group", "late"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        assert follower.stderr
        assert follower.stderr.readline() == (
            "regroup events: unknown group 'late'; groups in this store: none; waiting for it\n"
        )
        consume("confluent-kafka", ConsumerOptions(emulator.address, "late", ["orders"]))
        assert follower.stdout.readline().endswith(", times in UTC\n")
        assert "late             group-created" in follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 130
        assert follower.stderr.read() == ""


def test_a_known_group_without_events_after_the_position_is_no_mistake(store: Path, run_command: RunCommand) -> None:
    assert run_command("events", store, "--group", GROUP, "--after", "100000") == (0, "", "")
