"""A campaign: the cells of a grid, so many seeds of each, spread over Spark's tasks; every run's events, as Parquet.

    DIR/runs/chunk-000000.parquet      one row a run: its cell, its seed, what the lab judged and counted
    DIR/events/chunk-000000.parquet    every event of these runs, in the columns of the format `regroup`

A chunk is some runs in a row, simulated by one task, and named by the first of them. Its files are written under other
names and then renamed, runs last; so a campaign that was killed goes on with the runs that are not there yet.
"""

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from regroup.lab.checker.judge import Broken
from regroup.lab.checker.metrics import Counts
from regroup.lab.plan.plan import Plan
from regroup.lab.simulation.world import Outcome, play
from regroup.pipeline.atomic_files import only_writer, whole_file, write_whole
from regroup.pipeline.campaign.grid import BadCampaign, Campaign, Run
from regroup.pipeline.source.arrow_rows import SCHEMA
from regroup.pipeline.source.columns import EVENTS
from regroup.pipeline.spark.progress import Progress, watched
from regroup.storage.records import Record

RUNS_PER_CHUNK: Final = 20
LONGEST_FILE_NAME: Final = 150

STABLE_ONCE: Final = "In a run of a campaign the group is Stable at least once."

Play: TypeAlias = Callable[[Plan], Outcome]

WITH_STORE: Final = pa.schema([("store", pa.string()), *((field.name, field.type) for field in SCHEMA)])


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one task simulates."""

    campaign: Campaign
    first: int
    last: int
    folder: str

    def file(self, kind: str) -> Path:
        return Path(self.folder, kind, f"chunk-{self.first:08}.parquet")


def run_campaign(
    spark: SparkSession,
    campaign: Campaign,
    folder: Path,
    *,
    play_one: Play = play,
    progress: Progress | None = None,
) -> int:
    """Simulate what has not been simulated yet; how many runs that were. Raises BadCampaign in another's folder."""
    folder = folder.resolve()
    with only_writer(folder, "events", "runs"):
        claim(campaign, folder)
        left = chunks_left(campaign, folder)
        if left:
            tasks = spark.sparkContext.parallelize(left, len(left))
            what = f"simulating, {RUNS_PER_CHUNK} runs a task"
            watched(spark, what, lambda: tasks.foreach(partial(simulate, play_one=play_one)), progress)
    return sum(chunk.last - chunk.first for chunk in left)


def note_of(folder: Path) -> Path:
    """Where a folder keeps its campaign: another form of the file that was given, and good for all that one is."""
    return folder / "campaign.json"


def campaign_in(folder: Path) -> Campaign | None:
    """The campaign that a folder holds, if it holds one. Raises BadCampaign."""
    note = note_of(folder)
    try:
        return msgspec.json.decode(note.read_bytes(), type=Campaign)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadCampaign(
            f"{note} cannot be read ({error}). Remove it, and start the same campaign again: it is written anew."
        ) from error


def claim(campaign: Campaign, folder: Path) -> None:
    """The folder is this campaign's from now on, and holds nothing of runs that were not finished."""
    check_folder(campaign, folder)
    write_whole(note_of(folder), msgspec.json.encode(campaign))
    for events in (folder / "events").glob("chunk-*.parquet"):
        if not (folder / "runs" / events.name).exists():
            events.unlink()


def check_folder(campaign: Campaign, folder: Path) -> None:
    """More seeds may be added later; anything else is another campaign. Raises BadCampaign."""
    there = campaign_in(folder)
    if there and msgspec.structs.replace(there, seeds=campaign.seeds, question=campaign.question) != campaign:
        raise BadCampaign(f"{folder} holds another campaign ({there.question}): choose another folder.")
    through = max((last for _, last in played_in(folder)), default=0)
    if through > campaign.size:
        seeds = -(-through // (campaign.size // campaign.seeds))
        raise BadCampaign(
            f"{folder} holds {seeds} seeds already, and the plan asks for {campaign.seeds}: "
            f"ask for {seeds} or more, or choose another folder."
        )


def played_in(folder: Path) -> list[tuple[int, int]]:
    """Which runs are there, by their numbers: from the first to before the last of each chunk. Raises BadCampaign.

    How many a file holds is asked of the file. Its name has only its first: a campaign's last chunk is shorter than
    others, and when seeds are added the next one begins behind it.
    """
    return [
        (first, first + rows_of(file))
        for file in sorted((folder / "runs").glob("chunk-*.parquet"))
        for first in [int(file.stem.removeprefix("chunk-"))]
    ]


def rows_of(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadCampaign(f"{file} is damaged. Remove it, and start the campaign again: it is made anew.") from error


def chunks_left(campaign: Campaign, folder: Path) -> list[Chunk]:
    """What has not been simulated yet: the gaps between the chunks that are there, and what comes behind the last."""
    chunks, begin = [], 0
    for first, last in [*played_in(folder), (campaign.size, campaign.size)]:
        for start in range(begin, first, RUNS_PER_CHUNK):
            chunks.append(Chunk(campaign, start, min(start + RUNS_PER_CHUNK, first), str(folder)))
        begin = max(begin, last)
    return chunks


def simulate(chunk: Chunk, play_one: Play = play) -> None:
    """Play a chunk's runs and write what came of them."""
    runs, events = [], []
    for run in chunk.campaign.runs(chunk.first, chunk.last):
        outcome = judged(play_one(chunk.campaign.plan(run)))
        runs.append(row_of(run, outcome))
        events.append(table_of(run.name, outcome.records))
    write(pa.concat_tables(events), chunk.file("events"))
    write(pa.Table.from_pylist(runs, schema_of_runs(chunk.campaign)), chunk.file("runs"))


def judged(outcome: Outcome) -> Outcome:
    """A run in which nobody ever owned anything has lost nothing, and must not look like the best of all."""
    if outcome.verdict.counts.rebalances:
        return outcome
    never = Broken(STABLE_ONCE, outcome.ended_ms, None, "")
    return replace(outcome, verdict=outcome.verdict.with_broken([*outcome.verdict.broken, never]))


def write(table: pa.Table, target: Path) -> None:
    with whole_file(target, table.schema) as writer:
        writer.write_table(table)


def schema_of_runs(campaign: Campaign) -> pa.Schema:
    """Told and not guessed: in most chunks nothing is broken, and an empty list does not say of what."""
    counted = [(field.name, pa.float64() if field.type is float else pa.int64()) for field in fields(Counts)]
    return pa.schema(
        [
            *((name, pa.string()) for name in ("store", "cell", *campaign.grid)),
            *(("seed", pa.int64()), ("ended_ms", pa.int64()), ("healed", pa.bool_())),
            *(("broken", pa.list_(pa.string())), ("broken_after", pa.list_(pa.int64()))),
            *counted,
        ]
    )


def row_of(run: Run, outcome: Outcome) -> dict[str, Any]:
    return {
        "store": run.name,
        "cell": run.cell_name,
        **{key: str(value) for key, value in run.cell.items()},
        "seed": run.seed,
        "ended_ms": outcome.ended_ms,
        "healed": outcome.healed,
        "broken": [each.sentence for each in outcome.verdict.broken],
        "broken_after": [each.position for each in outcome.verdict.broken],
        **asdict(outcome.verdict.counts),
    }


def table_of(store: str, records: Sequence[Record]) -> pa.Table:
    columns: dict[str, Any] = {"store": [store] * len(records)}
    for field in SCHEMA:
        values = [getattr(record, field.name) for record in records]
        columns[field.name] = [each.decode() if isinstance(each, bytes) else each for each in values]
    return pa.table(columns, schema=WITH_STORE)


def events(spark: SparkSession, folder: Path) -> DataFrame:
    """Every event of the runs so far, in the source's columns; `store` is the run's name."""
    return spark.read.schema(EVENTS).parquet(str(folder / "events"))


def runs(spark: SparkSession, folder: Path) -> DataFrame:
    """One row a run."""
    return spark.read.parquet(str(folder / "runs"))


def line_to_replay(plan: Path, name: str) -> str:
    """What to type to play one run again, into a store of its own."""
    return shlex.join(["regroup", "campaign", str(plan), "--only", name, "--store", file_name(name)])


def file_name(run: str) -> str:
    """Without commas: `regroup pipeline ingest` takes these for the end of a name."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", run)
    if len(plain) > LONGEST_FILE_NAME:
        plain = f"{plain[:LONGEST_FILE_NAME]}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"
    return f"{plain}.db"
