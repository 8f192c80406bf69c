"""Times on the page: the form that stories, lessons and `regroup step` give them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from regroup.classroom.page import files
from regroup.server.explanation.sentences import duration_text

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
WORDS = Path(files.__file__).parent / "static" / "words.js"
LENGTHS_MS = [0, 1, 999, 1_000, 1_250, 6_003, 20_011, 45_000, 60_000, 103_017, 119_999, 300_000, 300_009, 599_000]
LENGTHS_MS += [600_000, 660_500, 3_600_000, 7_265_500, 86_400_000, 604_800_000, 1_234_567_890]
CALLED = """
const fs = require("fs"), vm = require("vm"), [script, called] = process.argv.slice(1);
const context = { location: { search: "" }, URLSearchParams };
vm.runInNewContext(fs.readFileSync(script, "utf8"), context);
console.log(JSON.stringify(vm.runInNewContext(called, context)));
"""


def called(expression: str) -> list[str]:
    """What an expression of the page's words gives."""
    done = subprocess.run(
        ["node", "-e", CALLED, str(WORDS), expression], capture_output=True, text=True, check=True, timeout=30
    )
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def test_lengths_of_time_are_those_of_stories() -> None:
    assert called(f"{LENGTHS_MS}.map(durationText)") == [duration_text(each) for each in LENGTHS_MS]


def test_times_since_the_begin_are_seconds_with_three_digits() -> None:
    assert called(f"{LENGTHS_MS}.map(sinceText)") == [f"+{each / 1000:.3f} s" for each in LENGTHS_MS]
