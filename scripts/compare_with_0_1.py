"""Compare the histories of seeded runs of versions 0.1 and 0.2: `python scripts/compare_with_0_1.py [--seeds N]`.

Version 0.2 renamed events, fields and sentences, and changed nothing that is decided. This script shows it: it checks
out the last commits of 0.1 and 0.2, plays the same seeds with both versions, turns every row of 0.1 into one of 0.2
with the map in names_0_1.toml, and compares row by row. Exit code 0 if all rows are equal, 1 if one differs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COMMITS = {"0.1": "b8cc92d", "0.2": "3f9c30f"}
NAMES = tomllib.loads(Path(__file__).with_name("names_0_1.toml").read_text(encoding="utf-8"))
SENTENCES = [(re.compile(old), new) for old, new in NAMES["sentences"].items()]
PROFILE_EVENTS = ("member-joined", "member-rejoined", "static-member-replaced")
IDENTITY = ("instance_id", "client_id", "client_host")

RECORD_0_1 = """
from regroup.lab.swarm import draw_plan
from regroup.lab.world import play
row = lambda r: (
    r.position, r.group, r.number, r.reign, r.at_ms, r.type, r.payload.decode(), (r.cause or b"null").decode(),
)
broken = lambda outcome: outcome.verdict.broken
"""
RECORD = """
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
row = lambda r: (
    r.position, r.group, r.event_number, r.coordinator_epoch, r.at_ms, r.type, r.payload.decode(),
    (r.cause or b"null").decode(),
)
broken = lambda outcome: outcome.verdict.violations
"""
PLAY = """
import json, sys
for seed in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    outcome = play(draw_plan(seed))
    rows = [row(each) for each in outcome.records]
    print(json.dumps([seed, outcome.ended_ms, len(broken(outcome)), rows]), flush=True)
"""


def histories(script: str, path: Path, first: int, last: int) -> Iterator[list[Any]]:
    """The runs of these seeds, played by the regroup in `path`."""
    command = [sys.executable, "-c", script + PLAY, str(first), str(last)]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    if process.returncode:
        raise SystemExit(f"playing seeds {first} to {last} failed with exit code {process.returncode}")


class Translator:
    """Turns the rows of one history of 0.1 into rows of 0.2.

    Later events of a member do not repeat its client and instance in 0.1, so the translator remembers them.
    """

    def __init__(self) -> None:
        self._identities: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, row: list[Any]) -> list[Any]:
        position, group, number, epoch, at_ms, kind, payload, cause = row
        event_type = NAMES["event_types"].get(kind, kind)
        return [
            position,
            group,
            number,
            epoch,
            at_ms,
            event_type,
            self._payload(group, kind, json.loads(payload)),
            translated_cause(json.loads(cause)),
        ]

    def _payload(self, group: str | None, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        if group is None:
            return payload
        names = NAMES["fields"].get(kind) or NAMES["fields"]["*"]
        renamed = {names.get(key, key): value for key, value in payload.items()}
        if kind in PROFILE_EVENTS:
            renamed = self._with_profile(group, kind, renamed)
        if "reason" in renamed:
            renamed["reason"] = sentence(renamed["reason"])
        if "lost" in renamed:
            renamed["lost"] = [sentence(each) for each in renamed["lost"]]
        return renamed

    def _with_profile(self, group: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        profile = {new: payload[old] for old, new in NAMES["profile"].items() if old in payload}
        rest = {key: value for key, value in payload.items() if key not in NAMES["profile"]}
        if kind == "static-member-replaced":
            rest["instance_id"] = payload["instance_id"]
        earlier = self._identities.get((group, payload.get("replaced_member_id", payload["member_id"])), {})
        identity = earlier if kind != "member-joined" else {key: profile[key] for key in IDENTITY if key in profile}
        self._identities[group, payload["member_id"]] = identity
        return rest | {"profile": profile | identity}


def translated_cause(cause: dict[str, Any] | None) -> dict[str, Any] | None:
    if cause is None:
        return None
    renamed = {NAMES["cause"].get(key, key): value for key, value in cause.items()}
    if "deadline" in renamed:
        renamed["deadline"] = NAMES["deadlines"].get(renamed["deadline"], renamed["deadline"])
    if "internal" in renamed:
        renamed["internal"] = sentence(renamed["internal"])
    return renamed


def sentence(text: str) -> str:
    for old, new in SENTENCES:
        if old.fullmatch(text):
            return old.sub(new, text)
    return text


def matches(old: Any, new: Any) -> bool:
    """Whether a translated value equals the one of 0.2; a sentence may stand for several, with | between them."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(matches(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(matches, old, new))
    return old == new or (isinstance(old, str) and isinstance(new, str) and "|" in old and new in old.split("|"))


def compare(old: list[Any], new: list[Any]) -> str | None:
    """What differs first between two runs of one seed; None if nothing does."""
    seed, *ends = old[:3]
    translate = Translator()
    for before, after in zip_longest(old[3], new[3]):
        if before is None or after is None:
            return f"seed {seed}: one history is longer, at {(before or after)[:6]}"
        expected = translate(before)
        found = [*after[:6], json.loads(after[6]), json.loads(after[7])]
        if not matches(expected, found):
            return f"seed {seed}:\n  0.1, translated  {json.dumps(expected)}\n  0.2              {json.dumps(found)}"
    return None if ends == new[1:3] else f"seed {seed}: ended {ends}, now {new[1:3]}"


def compared(old_path: Path, new_path: Path, first: int, last: int) -> tuple[int, int]:
    """How many rows were compared, and how many seeds differ."""
    rows = differing = 0
    for old, new in zip(
        histories(RECORD_0_1, old_path, first, last), histories(RECORD, new_path, first, last), strict=True
    ):
        rows += len(new[3])
        if difference := compare(old, new):
            differing += 1
            print(difference)
    return rows, differing


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A checkout of a commit; the path of the packages `regroup.…` in it."""
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", folder, commit], check=True)
    try:
        package = folder / "packages" / "regroup"
        package.mkdir(parents=True)
        for marker in folder.glob("*/py.typed"):
            (package / marker.parent.name).symlink_to(marker.parent)
        yield package.parent
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", folder], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500, help="seeds 1 to N (default: 500)")
    seeds = parser.parse_args().seeds
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as threads:
        folder, half = Path(name), seeds // 2
        with checked_out(COMMITS["0.1"], folder / "0.1") as old, checked_out(COMMITS["0.2"], folder / "0.2") as new:
            parts = [threads.submit(compared, old, new, *span) for span in ((1, half), (half + 1, seeds))]
            rows, differing = (sum(column) for column in zip(*[each.result() for each in parts], strict=True))
    print(f"{seeds} seeds, {rows:,} rows compared; {differing} seeds differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
