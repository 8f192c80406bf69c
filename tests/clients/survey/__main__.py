"""What real clients do after a fault: runs them against the emulator, and writes docs/clients.md.

python -m tests.clients.survey                    run what is missing, and write the page
python -m tests.clients.survey --clients java     one client; likewise --faults, --runs
python -m tests.clients.survey --write            only write the page, from the runs that exist
python -m tests.clients.survey --show librdkafka lost-sync-answer
"""

import argparse
import signal
import sys
from pathlib import Path

from tests.clients.survey.faults import FAULTS
from tests.clients.survey.outcome import outcome_of
from tests.clients.survey.page import PAGE, page
from tests.clients.survey.profile import RUNS
from tests.clients.survey.programs.starting import PROGRAMS, missing_tools
from tests.clients.survey.progress import missing_steps, survey
from tests.clients.survey.results import WorkFolder, cell_of, read_cells, write_cells
from tests.clients.survey.showing import shown_run

DEFAULT_FOLDER = Path(__file__).parents[3] / "build" / "survey"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.survey", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--clients", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each cell")
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help="where the runs are kept until all are done"
    )
    parser.add_argument("--write", action="store_true", help="run nothing")
    parser.add_argument(
        "--show", nargs=2, metavar=("CLIENT", "FAULT"), help="print the exchanges that are kept of a cell"
    )
    return parser.parse_args()


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    given = options()
    if given.show:
        return show(*given.show)
    work = WorkFolder(given.folder / "runs")
    failed = []
    if not given.write:
        clients = []
        for client in given.clients:
            if missing := missing_tools(client):
                print(f"left out: {client} needs {', '.join(missing)}", file=sys.stderr)
            else:
                clients.append(client)
        failed = survey(given.folder, list(missing_steps(work, clients, given.faults, given.runs)))
        for step in failed:
            print(f"not done: {step.client} {step.fault} #{step.number + 1}", file=sys.stderr)
    if not given.write and not is_whole(given):
        print_cells(work, given)
        return 1 if failed else 0
    kept = {(cell.client, cell.fault): cell for cell in read_cells()}
    for client in given.clients:
        for fault in FAULTS:
            if runs := work.runs(client, fault, given.runs):
                kept[client, fault] = cell_of(runs)
        write_cells(client, [kept[client, fault] for fault in FAULTS if (client, fault) in kept])
    PAGE.write_text(page(list(read_cells())), encoding="utf-8")
    return 1 if failed else 0


def is_whole(given: argparse.Namespace) -> bool:
    """Whether every cell has all its runs: only then the page and what is kept are written unasked."""
    return (set(given.clients), set(given.faults), given.runs) == (set(PROGRAMS), set(FAULTS), RUNS)


def print_cells(work: WorkFolder, given: argparse.Namespace) -> None:
    """Print what was observed in the cells that were asked for; `--write` writes them to the page."""
    for client in given.clients:
        for fault in given.faults:
            for run in work.runs(client, fault, given.runs):
                print(f"{client} {fault}: {', '.join(outcome_of(run).steps)}")


def show(client: str, fault: str) -> int:
    """Print the run that is kept of a cell."""
    for cell in read_cells():
        if (cell.client, cell.fault) == (client, fault):
            print("\n".join(shown_run(cell)))
            return 0
    print(f"nothing is kept of {client} {fault}; faults are {', '.join(FAULTS)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
