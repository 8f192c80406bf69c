"""Which events a build of the tables has to fold: all, or those that the present version was built without.

A version that can be continued has the states of its groups, its topic events, and a list of what was folded:

    DIR/tables/version-000002-8d1e/fold_state/part-00000.parquet, topics.parquet, sources.json

The next build links its files with complete rows, and folds new events from these states. The runs of a campaign are
folded as a whole and get no new events, so they need no states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.blocks import WrittenBlock, written_blocks
from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.bronze.ingested_exchanges import exchange_versions
from regroup.pipeline.bronze.store_progress import store_manifests
from regroup.pipeline.campaign.runner import read_events
from regroup.pipeline.gold.fold_state import STATE_FOLDER, STATES_DDL, state_format
from regroup.pipeline.gold.folding import FoldTarget, topic_events
from regroup.pipeline.gold.table_files import EMPTY_FILE, TABLE_SCHEMAS
from regroup.pipeline.gold.versions import (
    TablesDamaged,
    TablesMissing,
    TablesVersion,
    check_version,
    current_version,
    tables_folder,
    version_number,
)
from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_writer
from regroup.pipeline.source.columns import STORE_EVENT_SCHEMA

MAX_CONTINUED: Final = 50
"""After so many continued builds all events are folded again, since each adds files to every table."""


class FoldedSources(msgspec.Struct, frozen=True):
    """The events of a folder that a version of the tables was built from."""

    format: str
    """`state_format` of the code that folded them."""
    through: dict[str, int]
    """The last position of each ingested store, by the name of its files in bronze."""
    chunks: dict[str, int]
    """The files with the events of a campaign's runs: the size of each in bytes, by its name."""
    exchanges: dict[str, str] = {}
    """`exchange_versions` of the folder: what the tables of recorded exchanges were made of."""
    continued: int = 0
    """How many builds in a row have folded new events only."""


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """What a build folds, and what it takes from the present version of the tables."""

    events: DataFrame
    topics: pa.Table
    """The topic events of all stores, also of those without new events."""
    target: FoldTarget
    sources: FoldedSources | None = None
    """What will have been folded; None if events were given that are not those of the folder."""
    earlier: Location | None = None
    """The version that is continued; None if all events are folded."""
    earlier_files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The files of that version, as it has noted them."""
    states: DataFrame | None = None
    incomplete: tuple[str, ...] = ()
    """The stores whose last ingest is not complete: it was interrupted, or still runs. What it has written is not
    folded."""
    blocks: Mapping[str, Sequence[WrittenBlock]] | None = None
    """The files with all events that the tables are built from, also those that the earlier version was built from, by
    the store's name; None if there are no ingested stores, or if events were given."""
    unchanged: frozenset[str] = frozenset()
    """The stores with recorded exchanges that have no new event and no new exchange since the earlier version."""

    @property
    def through(self) -> Mapping[str, int] | None:
        """The last position of each ingested store that the tables are built from."""
        return None if self.sources is None else self.sources.through

    def link_complete_rows(self) -> frozenset[str]:
        """Link the earlier version's complete rows into the new one, and return the names of these tables.

        Every file that the earlier version has noted is linked. Raises TablesDamaged if one of them is gone.
        """
        if self.earlier is None:
            return frozenset()
        linked = set()
        for name in TABLE_SCHEMAS:
            noted = self.earlier_files.get(name, {})
            for file in (each for each in noted if each.startswith("part-") and each != EMPTY_FILE):
                source = self.earlier / name / file
                try:
                    source.link_to(self.target.folder / name / file)
                except FileNotFoundError as error:
                    raise TablesDamaged(f"{source} was removed during the build: build the tables again.") from error
                linked.add(name)
        return frozenset(linked)

    def keep_state(self) -> None:
        """Write what the next build needs to continue this one, beside the states that the fold has written."""
        if self.sources is not None:
            folder = self.target.folder / STATE_FOLDER
            with parquet_writer(folder / "topics.parquet", STORE_EVENT_SCHEMA) as writer:
                writer.write_table(self.topics)
            (folder / "sources.json").replace(msgspec.json.encode(self.sources))


def plan_of_given(events: DataFrame, version: Location) -> FoldPlan:
    """The plan to fold events that are not those of a folder."""
    return FoldPlan(events, topic_events(events), FoldTarget(version))


def plan_of_folder(spark: SparkSession, folder: Location, version: Location, *, is_full: bool) -> FoldPlan:
    """The plan to build a version of the tables from the events of the folder. With `is_full` all events are folded.

    That happens too if the present version cannot be continued: other code has made it, or events that it was built
    from are no longer there.
    """
    sources, blocks, incomplete = sources_of(folder)
    current, folded = (None, None) if is_full else continuable(folder, sources)
    prefix = "part" if folded is None else f"part-{version_number(version.name):06}"
    target = FoldTarget(version, prefix, keeps_state=bool(blocks))
    if folded is None or current is None:
        events = read_bronze(spark, folder, blocks, sources.through) if blocks else read_events(spark, folder)
        return FoldPlan(events, topic_events(events), target, sources, incomplete=incomplete, blocks=blocks or None)
    earlier = tables_folder(folder) / current.name
    sources = msgspec.structs.replace(sources, continued=folded.continued + 1)
    with (earlier / STATE_FOLDER / "topics.parquet").opened() as file:
        topics = pq.read_table(file)
    if not blocks:
        events = read_events(spark, folder, sorted(sources.chunks.keys() - folded.chunks.keys()))
        topics = pa.concat_tables([topics, topic_events(events)])
        return FoldPlan(events, topics, target, sources, earlier, current.files)
    events = read_bronze(spark, folder, blocks, sources.through, folded.through)
    states = spark.read.schema(STATES_DDL).parquet((earlier / STATE_FOLDER / "part-*.parquet").for_spark)
    topics = pa.concat_tables([topics, topic_events(events)])
    unchanged = unchanged_stores(sources, folded)
    return FoldPlan(events, topics, target, sources, earlier, current.files, states, incomplete, blocks, unchanged)


def unchanged_stores(present: FoldedSources, former: FoldedSources) -> frozenset[str]:
    """The stores whose recorded exchanges and events are what they were, by the names of their files."""
    return frozenset(
        name
        for name, version in present.exchanges.items()
        if former.exchanges.get(name) == version and former.through.get(name) == present.through.get(name)
    )


def sources_of(folder: Location) -> tuple[FoldedSources, dict[str, list[WrittenBlock]], tuple[str, ...]]:
    """The events that are in a folder now, the files of each store, and the stores whose last ingest is not complete.

    A store counts up to the position in its manifest. Behind it blocks may be missing, since they are written in
    parallel. Of a store that was trimmed through its last position there are only snapshots. Without a manifest the
    first ingest is not complete.
    """
    manifests = store_manifests(folder)
    written = {name: written_blocks(place) for name, place in store_folders(folder / "bronze").items()}
    names = sorted({*written, *store_folders(folder / "snapshots")})
    through = {name: manifests[name].through if name in manifests else 0 for name in names}
    blocks = {name: [each for each in written.get(name, []) if each.after < through[name]] for name in names}
    incomplete = (
        name
        for name in names
        if name not in manifests or any(each.through > through[name] for each in written.get(name, []))
    )
    files = {} if blocks else (folder / "events").files("chunk-*.parquet")
    chunks = {file.name: size for file, size in files.items()}
    sources = FoldedSources(state_format(), through, chunks, exchange_versions(folder))
    return sources, blocks, tuple(manifests[name].path if name in manifests else name for name in incomplete)


def store_folders(folder: Location) -> dict[str, Location]:
    """The folders of stores in a folder, by the name of the store's files."""
    found = (each for each in folder.folders() if each.name.startswith("store="))
    return {each.name.removeprefix("store="): each for each in found}


def continuable(folder: Location, sources: FoldedSources) -> tuple[TablesVersion | None, FoldedSources | None]:
    """The present version and what it was built from, if new events can be folded from its states; else None.

    A version with files that are damaged or missing is not continued, nor one that has not noted its files.
    """
    try:
        current = current_version(folder)
        if current is None or not current.files:
            return None, None
        check_version(folder, current)
        version = tables_folder(folder) / current.name
        folded = msgspec.json.decode((version / STATE_FOLDER / "sources.json").read_bytes(), type=FoldedSources)
    except (FileNotFoundError, TablesMissing, msgspec.MsgspecError):
        return None, None
    is_same = folded.format == sources.format and bool(folded.through) == bool(sources.through)
    has_all = all(sources.through.get(name, -1) >= through for name, through in folded.through.items())
    has_all = has_all and folded.exchanges.keys() <= sources.exchanges.keys()
    if is_same and has_all and folded.chunks.items() <= sources.chunks.items() and folded.continued < MAX_CONTINUED:
        return current, folded
    return None, None
