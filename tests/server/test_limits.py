"""The limits of requests, and the page that lists them."""

from pathlib import Path

from regroup.cli.serve import arguments
from regroup.coordinator.consumer.targets import MAX_TARGET_WORK
from regroup.protocol.frames import MAX_ARRAY_ENTRIES
from regroup.server import limits

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")


def test_the_page_has_a_row_for_the_limits_of_every_api() -> None:
    for request, limit in limits.LIMITS.items():
        further = [limit.other] if limit.other else []
        if limit.max_entries != MAX_ARRAY_ENTRIES:
            further.insert(0, f"{limit.max_entries:,} array entries")
        name = request.__name__.removesuffix("Request")
        row = f"| {name} | {limit.step} | {limit.repeated} | {'; '.join(further)} |"
        assert row in PAGE.splitlines()
    assert PAGE.count("\n| ") == len(limits.LIMITS) + 22


def test_the_page_names_the_general_limits() -> None:
    for text in (
        f"{MAX_ARRAY_ENTRIES:,}",
        f"{limits.STEPS_PER_TURN:,}",
        f"{MAX_TARGET_WORK:,} units",
        f"{limits.ENCODED_BYTES_PER_TURN // 1024} KiB",
        f"{limits.DEFAULT_MAX_RESPONSE_BYTES // 2**20} MiB",
    ):
        assert text in PAGE


def test_the_help_and_the_server_have_the_same_default() -> None:
    assert arguments.DEFAULT_MAX_RESPONSE_BYTES == limits.DEFAULT_MAX_RESPONSE_BYTES
