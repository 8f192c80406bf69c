"""The command `regroup`."""

import argparse
from importlib.metadata import version


def main() -> int:
    """Parse the command line and do what it says; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="regroup")
    parser.add_argument("--version", action="version", version=f"regroup {version('kafka-regroup')}")
    parser.parse_args()
    return 0
