"""A campaign: the cells of a grid, so many seeds of each, spread over Spark's tasks; every run's events, as Parquet.

    DIR/runs/chunk-000000.parquet      one row a run: its cell, its seed, what the lab judged and counted
    DIR/events/chunk-000000.parquet    every event of these runs, in the columns of the format `regroup`

A chunk is some runs in a row, simulated by one task. Its files are written under other names and then renamed, runs
last; so a campaign that was killed goes on with the chunks that have no runs yet.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import yaml
from pyspark.sql import DataFrame, SparkSession

from regroup.lab.counts import Counts
from regroup.lab.plan import Plan
from regroup.lab.world import Outcome, play
from regroup.pipeline.columns import EVENTS
from regroup.pipeline.progress import Progress, watched
from regroup.pipeline.rows import SCHEMA
from regroup.pipeline.scenarios import SCENARIOS, options_of
from regroup.pipeline.whole_files import only_writer, whole_file
from regroup.storage.records import Record

RUNS_PER_CHUNK: Final = 20

Play: TypeAlias = Callable[[Plan], Outcome]

WITH_STORE: Final = pa.schema([("store", pa.string()), *((field.name, field.type) for field in SCHEMA)])


class BadCampaign(ValueError):
    """The file does not say what to simulate, or says it wrongly."""


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a campaign's file holds. The grid is every combination of the values; `fixed` is the same in all cells."""

    question: str
    scenario: str
    seeds: int
    """Runs of each cell."""
    grid: dict[str, list[Any]]
    fixed: dict[str, Any] = {}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """In the order of the file, the last name's values changing fastest."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    @property
    def size(self) -> int:
        """Runs of all cells."""
        return self.seeds * len(self.cells)

    def runs(self, first: int = 0, last: int | None = None) -> Iterator["Run"]:
        """Every cell with seed 0, every cell with seed 1, …: so that an unfinished campaign has seen all cells.

        One after the other, from `first` to before `last` of them: there may be a million.
        """
        cells = self.cells
        for number in range(first, self.size if last is None else last):
            yield Run(cells[number % len(cells)], number // len(cells))

    def plan(self, run: "Run") -> Plan:
        """What the lab is to play."""
        return SCENARIOS[self.scenario](options_of({**self.fixed, **run.cell}), run.seed)


class Run(msgspec.Struct, frozen=True):
    """One simulation of a campaign."""

    cell: dict[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """`assignor=range,seed=7`: enough to find it again."""
        return ",".join(f"{key}={value}" for key, value in [*self.cell.items(), ("seed", self.seed)])


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one task simulates."""

    campaign: Campaign
    first: int
    last: int
    folder: str

    def file(self, kind: str) -> Path:
        return Path(self.folder, kind, f"chunk-{self.first:08}.parquet")


def read_campaign(path: Path) -> Campaign:
    """Raises BadCampaign."""
    try:
        campaign = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Campaign)
        if campaign.scenario not in SCENARIOS:
            raise ValueError(f"there is no scenario {campaign.scenario!r}; there are {', '.join(SCENARIOS)}")
        if campaign.seeds < 1 or not campaign.cells:
            raise ValueError("seeds must be at least 1, and every name of the grid needs a value")
        for cell in campaign.cells:
            options_of({**campaign.fixed, **cell})
    except OSError as error:
        raise BadCampaign(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise BadCampaign(f"{path}: {error}.") from error
    return campaign


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
        left = [chunk for chunk in chunks_of(campaign, folder) if not chunk.file("runs").exists()]
        if left:
            tasks = spark.sparkContext.parallelize(left, len(left))
            what = f"simulating, {RUNS_PER_CHUNK} runs a task"
            watched(spark, what, lambda: tasks.foreach(partial(simulate, play_one=play_one)), progress)
    return sum(chunk.last - chunk.first for chunk in left)


def note_of(folder: Path) -> Path:
    """Where a folder keeps its campaign: another form of the file that was given, and good for all that one is."""
    return folder / "campaign.json"


def claim(campaign: Campaign, folder: Path) -> None:
    """The folder is this campaign's from now on. More seeds may be added later; anything else is another campaign."""
    note = note_of(folder)
    if note.exists():
        there = msgspec.json.decode(note.read_bytes(), type=Campaign)
        if msgspec.structs.replace(there, seeds=campaign.seeds, question=campaign.question) != campaign:
            raise BadCampaign(f"{folder} holds another campaign ({there.question}): choose another folder.")
    note.write_bytes(msgspec.json.encode(campaign))


def chunks_of(campaign: Campaign, folder: Path) -> list[Chunk]:
    """The last may be shorter; when seeds are added it is simulated as before and goes by another name."""
    total = campaign.size
    done = sorted(int(each.stem.removeprefix("chunk-")) for each in (folder / "runs").glob("chunk-*.parquet"))
    starts = sorted({*range(0, total, RUNS_PER_CHUNK), *done})
    return [
        Chunk(campaign, first, min(following, total), str(folder))
        for first, following in zip(starts, [*starts[1:], total], strict=True)
        if first < total
    ]


def simulate(chunk: Chunk, play_one: Play = play) -> None:
    """Play a chunk's runs and write what came of them."""
    runs, events = [], []
    for run in chunk.campaign.runs(chunk.first, chunk.last):
        outcome = play_one(chunk.campaign.plan(run))
        runs.append(row_of(run, outcome))
        events.append(table_of(run.name, outcome.records))
    write(pa.concat_tables(events), chunk.file("events"))
    write(pa.Table.from_pylist(runs, schema_of_runs(chunk.campaign)), chunk.file("runs"))


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
        "cell": ",".join(f"{key}={value}" for key, value in run.cell.items()),
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


def find(campaign: Campaign, name: str) -> Run:
    """The run of this name. Raises BadCampaign."""
    for run in campaign.runs():
        if run.name == name:
            return run
    first = next(campaign.runs())
    raise BadCampaign(f"this campaign has no run {name!r}; one of its runs is {first.name!r}")
