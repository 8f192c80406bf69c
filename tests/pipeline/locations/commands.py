"""Runs commands of regroup in one Spark session of another process, which has settings that no other test needs."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import json, sys
from regroup.cli.main import main
from regroup.pipeline.spark.session import spark_session

master, settings, commands = json.loads(sys.argv[1])
with spark_session(master, settings=settings):
    codes = [main(words) for words in commands]
print(json.dumps(codes))
"""


class CommandResults(NamedTuple):
    codes: list[int]
    printed: str


def command_line(
    settings: Mapping[str, str], commands: Sequence[list[str]], master: str = "local[1]", program: str = PROGRAM
) -> list[str]:
    return [sys.executable, "-c", program, json.dumps([master, dict(settings), commands])]


def run_commands(settings: Mapping[str, str], folder: Path, *commands: list[str]) -> CommandResults:
    """Run commands in this folder: their exit codes, and what they printed."""
    words = command_line(settings, commands)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return results_of(done.stdout, done.stderr)


def results_of(out: str, err: str) -> CommandResults:
    """What a program has printed, which ends with the exit codes of its commands."""
    *printed, last = out.splitlines()
    return CommandResults(json.loads(last), "\n".join([*printed, err]))
