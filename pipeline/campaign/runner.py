"""Runs a campaign on Spark and writes the events and results of its runs as Parquet.

    DIR/runs/chunk-00000000.parquet      one row for each run: its cell, its seed, the lab's verdict and counts
    DIR/events/chunk-00000000.parquet    all events of these runs, in the columns of the data source
    DIR/campaign.json                    the campaign's definition

A chunk is a range of runs that one task simulates, named by the first of them. Its files are renamed when they are
complete, the one in `runs` last; so a campaign that was killed continues with the runs that are missing.
"""

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regroup.lab.checker.metrics import Counts
from regroup.lab.checker.verdict import RunViolation
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.search.seed_run import play_bounded
from regroup.lab.simulation.run import RunOutcome
from regroup.pipeline.campaign.grid import Campaign, CampaignRun, InvalidCampaign
from regroup.pipeline.campaign.measures import RunMeasures, has_stable_member, measures_of
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import (
    check_for_campaign,
    check_format,
    exclusive_writer,
    parquet_metadata,
    parquet_writer,
)
from regroup.pipeline.source.columns import EVENT_SCHEMA, EVENTS_DDL, STORE_EVENT_SCHEMA
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import StoreDamaged
from regroup.storage.records import Record

RUNS_PER_CHUNK: Final = 20
MAX_FILE_NAME_LENGTH: Final = 150
MAX_CALLBACKS_PER_RUN: Final = 10_000_000
"""The bound on the work of one run, in callbacks of its event loop: about ten minutes. A run beyond it is a rebalance
storm, which is a violation as any other."""

STABLE_AT_LEAST_ONCE: Final = "In a run of a campaign the group is Stable at least once."

PlayPlan: TypeAlias = Callable[[SimulationPlan], RunOutcome]

play_run: Final = partial(play_bounded, max_callbacks=MAX_CALLBACKS_PER_RUN)
"""Plays the plan of a run, as `play_bounded` does."""


@dataclass(frozen=True, slots=True)
class CampaignChunk:
    """The runs that one Spark task simulates: numbers `first` to `last` - 1 of the campaign."""

    campaign: Campaign
    first: int
    last: int
    folder: Location


def run_campaign(
    spark: SparkSession,
    campaign: Campaign,
    folder: LocationLike,
    *,
    play_one: PlayPlan = play_run,
    progress: JobProgress | None = None,
) -> int:
    """Simulate the runs of the campaign that the folder does not have yet, and return how many these were.

    Raises InvalidCampaign, StoreError.
    """
    folder = location_of(folder, spark)
    with exclusive_writer(folder, "events", "runs"):
        claim_folder(campaign, folder)
        missing = missing_chunks(campaign, folder)
        if missing:
            tasks = spark.sparkContext.parallelize(missing, len(missing))
            what = f"simulating, {RUNS_PER_CHUNK} runs a task"
            run_with_progress(spark, what, lambda: tasks.foreach(partial(simulate_chunk, play_one=play_one)), progress)
    return sum(chunk.last - chunk.first for chunk in missing)


def campaign_file(folder: LocationLike) -> Location:
    """The file with the definition of a folder's campaign, as JSON.

    `read_campaign` accepts it like the original YAML.
    """
    return location_of(folder) / "campaign.json"


def stored_campaign(folder: LocationLike) -> Campaign | None:
    """The campaign whose runs are in the folder; None if it has none. Raises InvalidCampaign."""
    file = campaign_file(folder)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Campaign)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidCampaign(
            f"{file} cannot be read ({error}). Remove it, and start the same campaign again: it is written again."
        ) from error


def claim_folder(campaign: Campaign, folder: LocationLike) -> None:
    """Write the campaign's definition to the folder, and remove the events of chunks that were not completed.

    Raises InvalidCampaign if the folder holds another campaign.
    """
    check_folder(campaign, folder)
    campaign_file(folder).replace(msgspec.json.encode(campaign))
    place = location_of(folder)
    complete = {runs.name for runs in (place / "runs").files("chunk-*.parquet")}
    for events in (place / "events").files("chunk-*.parquet"):
        if events.name not in complete:
            events.remove()


def check_folder(campaign: Campaign, folder: LocationLike) -> None:
    """Raise InvalidCampaign if the folder holds another campaign, and HoldsOtherEvents if it holds ingested stores.

    A campaign that differs only in its question, or has more seeds, counts as the same.
    """
    check_for_campaign(folder)
    stored = stored_campaign(folder)
    if stored and msgspec.structs.replace(stored, seeds=campaign.seeds, question=campaign.question) != campaign:
        raise InvalidCampaign(f"{folder} holds another campaign ({stored.question}): choose another folder.")
    through = max((last for _, last in simulated_ranges(folder)), default=0)
    if through > campaign.run_count:
        seeds = -(-through // (campaign.run_count // campaign.seeds))
        raise InvalidCampaign(
            f"{folder} holds {seeds} seeds already, and the plan asks for {campaign.seeds}: "
            f"ask for {seeds} or more, or choose another folder."
        )


def simulated_ranges(folder: LocationLike) -> list[tuple[int, int]]:
    """The range of runs of each chunk in the folder: the number of its first run, and that after its last.

    The number of runs is read from each file, since chunks differ: the last one of a campaign may be shorter, and more
    seeds begin a new chunk after it. Raises InvalidCampaign.
    """
    ranges = []
    for file in (location_of(folder) / "runs").files("chunk-*.parquet"):
        first = int(file.stem.removeprefix("chunk-"))
        try:
            ranges.append((first, first + int(parquet_metadata(file).num_rows)))
        except (OSError, StoreDamaged) as error:
            raise InvalidCampaign(
                f"{file} is damaged. Remove it, and start the campaign again: its runs are simulated again."
            ) from error
    return ranges


def missing_chunks(campaign: Campaign, folder: LocationLike) -> list[CampaignChunk]:
    """The chunks to simulate: the runs between the simulated ranges, and those after the last range."""
    chunks, begin = [], 0
    for first, last in [*simulated_ranges(folder), (campaign.run_count, campaign.run_count)]:
        chunks += [
            CampaignChunk(campaign, start, min(start + RUNS_PER_CHUNK, first), location_of(folder))
            for start in range(begin, first, RUNS_PER_CHUNK)
        ]
        begin = max(begin, last)
    return chunks


def simulate_chunk(chunk: CampaignChunk, play_one: PlayPlan = play_run) -> None:
    """Simulate the runs of a chunk, and write their events and results to its two files."""
    runs, events = [], []
    for run in chunk.campaign.runs(chunk.first, chunk.last):
        outcome = require_stable(play_one(chunk.campaign.plan(run)))
        runs.append(run_row(run, outcome))
        events.append(events_table(run.name, outcome.records))
    tables = {"events": pa.concat_tables(events), "runs": pa.Table.from_pylist(runs, runs_schema(chunk.campaign))}
    for kind, table in tables.items():
        target = chunk.folder / kind / f"chunk-{chunk.first:08}.parquet"
        with parquet_writer(target, table.schema) as writer:
            writer.write_table(table)


def require_stable(outcome: RunOutcome) -> RunOutcome:
    """Return the outcome of a run, with an added violation if its group was never Stable.

    Without it such a run would count as one without gaps: no partition lost its owner, since none ever had one.
    """
    if outcome.verdict.counts.rebalances or has_stable_member(outcome):
        return outcome
    violation = RunViolation(STABLE_AT_LEAST_ONCE, outcome.ended_ms, None, "")
    return replace(outcome, verdict=outcome.verdict.with_violations([*outcome.verdict.violations, violation]))


def runs_schema(campaign: Campaign) -> pa.Schema:
    """The Arrow schema of the table in `DIR/runs`; Arrow could not infer it from empty lists of violations."""
    counted = (*fields(Counts), *fields(RunMeasures))
    counts = [(field.name, pa.float64() if field.type is float else pa.int64()) for field in counted]
    return pa.schema(
        [
            *((name, pa.string()) for name in ("store", "cell", *campaign.grid)),
            *(("seed", pa.int64()), ("ended_ms", pa.int64()), ("recovered", pa.bool_())),
            *(("violations", pa.list_(pa.string())), ("violation_positions", pa.list_(pa.int64()))),
            *counts,
        ]
    )


def run_row(run: CampaignRun, outcome: RunOutcome) -> dict[str, Any]:
    return {
        "store": run.name,
        "cell": run.cell_name,
        **{key: str(value) for key, value in run.cell.items()},
        "seed": run.seed,
        "ended_ms": outcome.ended_ms,
        "recovered": outcome.recovered,
        "violations": [each.sentence for each in outcome.verdict.violations],
        "violation_positions": [each.position for each in outcome.verdict.violations],
        **asdict(outcome.verdict.counts),
        **asdict(measures_of(outcome)),
    }


def events_table(store: str, records: Sequence[Record]) -> pa.Table:
    columns: dict[str, Any] = {"store": [store] * len(records)}
    for name in EVENT_SCHEMA.names:
        values = [getattr(record, name) for record in records]
        columns[name] = [each.decode() if isinstance(each, bytes) else each for each in values]
    return pa.table(columns, schema=STORE_EVENT_SCHEMA)


def read_events(spark: SparkSession, folder: LocationLike, chunks: Sequence[str] | None = None) -> DataFrame:
    """The events of a campaign in the columns of the data source; `store` has the name of the run.

    `chunks` are the names of the files to read; by default all are.
    """
    place = location_of(folder, spark)
    check_format(place)
    if chunks is None:
        return spark.read.schema(EVENTS_DDL).parquet((place / "events").for_spark)
    files = [(place / "events" / each).for_spark for each in chunks]
    return spark.read.schema(EVENTS_DDL).parquet(*files) if files else spark.createDataFrame([], EVENTS_DDL)


def read_runs(spark: SparkSession, folder: LocationLike) -> DataFrame:
    """The results of a campaign, one row for each run. Measures that an older release did not write are null."""
    place = location_of(folder, spark)
    check_format(place)
    runs = spark.read.option("mergeSchema", "true").parquet((place / "runs").for_spark)
    missing = [each for each in fields(RunMeasures) if each.name not in runs.columns]
    return runs.withColumns(
        {each.name: F.lit(None).cast("double" if each.type is float else "long") for each in missing}
    )


def replay_command(plan: str | Location, name: str) -> str:
    """The shell command that simulates the run with this name again, and writes its events to a new store."""
    return shlex.join(["regroup", "campaign", str(plan), "--only", name, "--store", store_file_name(name)])


def store_file_name(run: str) -> str:
    """A file name for the store of a run, without commas, since `regroup pipeline ingest` separates paths by them."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", run)
    if len(plain) > MAX_FILE_NAME_LENGTH:
        plain = f"{plain[:MAX_FILE_NAME_LENGTH]}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"
    return f"{plain}.db"
