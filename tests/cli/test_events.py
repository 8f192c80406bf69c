"""`regroup events` about a group that is not there, or not yet."""

import signal
import subprocess

import pytest

from tests.clients.emulator import REGROUP, SECONDS, eventually, regroup
from tests.clients.libraries import Wish
from tests.clients.processes import Consume, Serve


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_a_group_that_comes_later_can_be_waited_for(serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:1")
    words = [REGROUP, "events", emulator.store, "--follow", "--group", "late"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        assert follower.stderr
        assert follower.stderr.readline() == (
            "regroup events: nothing is known of group 'late'; known are: none at all; waiting for it to come\n"
        )
        consume("confluent-kafka", Wish(emulator.address, "late", ["orders"]))
        assert follower.stdout.readline().endswith(", times in UTC\n")
        assert "late             group-created" in follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(SECONDS) == 130
        assert follower.stderr.read() == ""


def test_a_group_whose_events_come_later_than_asked_for_is_no_mistake(serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:1")
    consumer = consume("confluent-kafka", Wish(emulator.address, "early", ["orders"]))
    eventually(lambda: len(consumer.owned) == 1, "the assignment")
    done = regroup("events", emulator.store, "--group", "early", "--after", "100000")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
