"""Runs the examples whose tools are installed, and says which it left out: make examples.

python examples/run.py                all of them
python examples/run.py go java        these
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
PYTEST = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider")


class Example(NamedTuple):
    """Commands in a folder, and what they need: programs, Python packages, the control port of `regroup serve`."""

    folder: str
    commands: Sequence[Sequence[str]]
    programs: Sequence[str] = ()
    packages: Sequence[str] = ()
    needs_control: bool = False


EXAMPLES = {
    "confluent-kafka": Example(
        "pytest", [(*PYTEST, "test_confluent_kafka.py")], packages=["confluent_kafka", "pytest"]
    ),
    "aiokafka": Example("pytest", [(*PYTEST, "test_aiokafka.py")], packages=["aiokafka", "pytest_asyncio"]),
    "kafka-python": Example("pytest", [(*PYTEST, "test_kafka_python.py")], packages=["kafka", "pytest"]),
    "java": Example("java", [("mvn", "-q", "-B", "test")], programs=["java", "mvn"], needs_control=True),
    "go": Example("go", [("go", "test", "-count=1", ".")], programs=["go"], needs_control=True),
    "node": Example(
        "node",
        [("npm", "install", "--no-audit", "--no-fund", "--silent"), ("npm", "test", "--silent")],
        programs=["node", "npm"],
        needs_control=True,
    ),
}


def regroup_command() -> str:
    """The command of the environment, or the one beside this Python, or the one on the path."""
    beside = Path(sys.executable).with_name("regroup")
    return os.environ.get("REGROUP") or (str(beside) if beside.exists() else "regroup")


def missing(example: Example) -> Iterator[str]:
    """What the example needs and this machine has not."""
    yield from (program for program in example.programs if shutil.which(program) is None)
    yield from (package for package in example.packages if importlib.util.find_spec(package) is None)
    if example.needs_control:
        yield from missing_for_control()


def missing_for_control() -> Iterator[str]:
    try:
        asked = subprocess.run([regroup_command(), "serve", "--help"], capture_output=True, text=True, check=False)
    except OSError:
        yield "the command regroup"
        return
    if "--control" not in asked.stdout:
        yield "a regroup with `serve --control`"
    if "REGROUP" not in os.environ:
        yield from (package for package in ("starlette", "uvicorn") if importlib.util.find_spec(package) is None)


def run(example: Example) -> int:
    """Run its commands until one fails; the exit code of the last one."""
    for command in example.commands:
        done = subprocess.run(
            command, cwd=FOLDER / example.folder, env=os.environ | {"REGROUP": regroup_command()}, check=False
        )
        if done.returncode:
            return done.returncode
    return 0


def main(names: Sequence[str]) -> int:
    if unknown := [name for name in names if name not in EXAMPLES]:
        print(f"unknown: {', '.join(unknown)}; the examples are {', '.join(EXAMPLES)}", file=sys.stderr)
        return 2
    left_out, failed = [], []
    for name in names or EXAMPLES:
        needs = list(missing(EXAMPLES[name]))
        if needs:
            left_out.append(f"{name} (needs {', '.join(needs)})")
            continue
        print(f"== {name}", flush=True)
        if run(EXAMPLES[name]):
            failed.append(name)
    for what, listed in (("left out", left_out), ("failed", failed)):
        if listed:
            print(f"{what}: {', '.join(listed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
