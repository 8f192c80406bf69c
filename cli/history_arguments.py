"""What the commands that look at a store have in common."""

import argparse
from pathlib import Path


def add_store(parser: argparse.ArgumentParser) -> None:
    """The store comes first. It may be written to by a running emulator at the same time."""
    parser.add_argument("store", metavar="STORE", type=Path, help="the file that `regroup serve --store` writes")


def add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="G", help="only this group")
