"""The jobs of `regroup chaos show` and `regroup chaos words`: print a scenario file, and the reference of what it may
contain.
"""

import textwrap
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from regroup.cli.jobs import FILE_ERRORS, CannotRun, cannot_run_after
from regroup.lab.checker.invariant_list import invariant_reference
from regroup.lab.plan.scenario_files import scenario_text
from regroup.lab.plan.scenario_words import ReferenceRow, ReferenceTable, scenario_reference
from regroup.lab.simulation.recovery import READS_INVARIANT, RECOVERY_INVARIANT
from regroup.lab.simulation.run import NO_REBALANCE_STORM, NO_UNEXPECTED_EXCEPTION, TIME_ADVANCES

WIDTH: Final = 78


@cannot_run_after(ValueError, *FILE_ERRORS)
def show_scenario(args: Namespace) -> int:
    """Print the file of a scenario as it is."""
    path = Path(args.scenario)
    print(path.read_text(encoding="utf-8") if path.is_file() else scenario_text(args.scenario), end="")
    return 0


def show_words(args: Namespace) -> int:
    """Print all tables of the reference, or the rows that contain the text of the arguments."""
    shown = list(_matching(args.about.lower()))
    if not shown:
        raise CannotRun(f"no word of a scenario and no invariant contains {args.about!r}")
    for title, rows in shown:
        print(f"\n{title}")
        for words, meaning in rows:
            print(textwrap.fill(words, WIDTH, initial_indent="  ", subsequent_indent="    "))
            if meaning:
                print(textwrap.fill(meaning, WIDTH, initial_indent="      ", subsequent_indent="      "))
    return 0


def _matching(text: str) -> Iterator[ReferenceTable]:
    """Yield tables whose title contains the text, and of other tables only the rows that contain it."""
    for title, rows in (*scenario_reference(), *invariant_tables()):
        matching = rows if text in title.lower() else tuple(row for row in rows if text in " ".join(row).lower())
        if matching:
            yield ReferenceTable(title, matching)


def invariant_tables() -> Iterator[ReferenceTable]:
    """Yield tables of the invariants that runs are checked for: one for each subject, one about the run itself, and one
    about recovery."""
    for subject, rows in invariant_reference().items():
        yield ReferenceTable(
            f"Invariants: {subject[0].lower()}{subject[1:]}", tuple(ReferenceRow(*row) for row in rows)
        )
    ends = "The run ends there."
    whole = ((NO_UNEXPECTED_EXCEPTION, ""), (TIME_ADVANCES, ends), (NO_REBALANCE_STORM, ends))
    yield ReferenceTable("Invariants: the run itself", tuple(ReferenceRow(*row) for row in whole))
    exit_code = "A run that violates nothing else ends with exit code 3."
    end = (ReferenceRow(RECOVERY_INVARIANT, exit_code), ReferenceRow(READS_INVARIANT, exit_code))
    yield ReferenceTable("Invariants: the end of a run", end)
