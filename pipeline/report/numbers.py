"""What a report tells, as tables: distributions over runs, for each cell of a campaign."""

from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.campaign import run
from regroup.pipeline.gold.build import table

HUNDREDTHS: Final = "array(0.05, 0.25, 0.5, 0.75, 0.95)"
MOMENTS: Final = 120
"""Points in time of a fan."""
WORST: Final = 10

NOT_OWNED_YET: Final = "not owned yet"
"""Nobody has owned the partition since it is there. The lab does not count that as lost time, so it is told apart."""


class Numbers:
    """Of one folder; each property is a small table. `cell` is what the runs of a campaign have in common."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.is_campaign = (folder / "runs").is_dir()
        self.runs = run.runs(spark, folder) if self.is_campaign else self._stores()
        self._cells = self.runs.select("store", "cell")

    def _stores(self) -> DataFrame:
        """Without a campaign every store is a run, and all are of one kind. Nobody but the gaps tells the time lost."""
        groups = table(self._spark, self._folder, "groups").select("store").distinct()
        owned_before = self._gaps().where(F.col("why") != NOT_OWNED_YET)
        lost = owned_before.groupBy("store").agg(seconds_of_gaps("ownerless_s"))
        return groups.join(lost, "store", "left").select(
            "store", F.lit("all stores").alias("cell"), F.coalesce("ownerless_s", F.lit(0.0)).alias("ownerless_s")
        )

    def _gaps(self) -> DataFrame:
        """Without those before the group's first assignment, of empty groups, and that had not ended."""
        rebalances = table(self._spark, self._folder, "rebalances")
        first = rebalances.groupBy("store", "group").agg(F.min("sync_end_ms").alias("first_ms"))
        partition = ["store", "group", "topic", "partition"]
        owned = table(self._spark, self._folder, "ownership").groupBy(*partition)
        gaps = (
            table(self._spark, self._folder, "gaps")
            .join(first, ["store", "group"])
            .join(owned.agg(F.min("from_ms").alias("owned_ms")), partition, "left")
            .where("from_ms >= first_ms AND to_ms IS NOT NULL AND why <> 'empty'")
        )
        why = F.when(F.expr("owned_ms <= from_ms"), F.col("why")).otherwise(NOT_OWNED_YET)
        return gaps.withColumn("why", why)

    def frames(self) -> dict[str, DataFrame]:
        """Each by the name that it is kept under."""
        return {
            "without_an_owner": self.without_an_owner(),
            "causes": self.causes(),
            "phases": self.phases(),
            "moves": self.moves(),
            "detection": self.detection(),
            "read_again": self.read_again(),
            "fan": self.fan(),
            "worst": self.worst(),
            "broken": self.broken(),
        }

    def without_an_owner(self) -> DataFrame:
        """Partition-seconds a run without an owner: their distribution.

        A group that was never Stable has lost nothing, since it never had anything; it is told among the broken.
        """
        stable = self.runs.where("rebalances > 0") if self.is_campaign else self.runs
        return spread(stable.groupBy("cell"), "ownerless_s").orderBy("cell")

    def causes(self) -> DataFrame:
        """The mean of partition-seconds a run, by what was going on. From the events: what the coordinator knew."""
        runs = self._cells.groupBy("cell").agg(F.count("*").alias("runs"))
        lost = self._gaps().join(self._cells, "store").groupBy("cell", "why").agg(seconds_of_gaps("total_s"))
        return lost.join(runs, "cell").select("cell", "why", F.expr("total_s / runs").alias("mean_s")).orderBy("cell")

    def broken(self) -> DataFrame:
        """Cells of a campaign with runs in which something is broken: how many, of how many, and one to look at."""
        if not self.is_campaign:
            return self._cells.limit(0)
        found = F.expr("size(broken) > 0")
        return (
            self.runs.groupBy("cell")
            .agg(
                F.count("*").alias("runs"),
                F.count_if(found).alias("broken"),
                F.min(F.when(found, F.struct("store", F.col("broken")[0].alias("sentence")))).alias("first"),
            )
            .where("broken > 0")
            .select("cell", "runs", "broken", "first.store", "first.sentence")
            .orderBy("cell")
        )

    def _rebalances(self) -> DataFrame:
        completed = table(self._spark, self._folder, "rebalances").where("outcome = 'completed' AND NOT initial")
        return completed.join(self._cells, "store")

    def phases(self) -> DataFrame:
        """Seconds of the join and of the sync phase of completed rebalances, the group's first ones left out."""
        return (
            self._rebalances()
            .selectExpr(
                "cell",
                "explode(map('join', (join_end_ms - started_ms) / 1000, 'sync', (sync_end_ms - join_end_ms) / 1000)) "
                "AS (phase, seconds)",
            )
            .transform(lambda rows: spread(rows.groupBy("cell", "phase"), "seconds"))
            .orderBy("cell", "phase")
        )

    def moves(self) -> DataFrame:
        """Partitions a rebalance, in the mean."""
        kinds = ("moved", "given_up_for_nothing", "kept", "new")
        return (
            self._rebalances()
            .groupBy("cell", "protocol")
            .agg(*(F.avg(kind).alias(kind) for kind in kinds))
            .orderBy("cell")
        )

    def detection(self) -> DataFrame:
        """Seconds for which an expelled member had not been heard."""
        silent = table(self._spark, self._folder, "member_lives").where(
            "end = 'expelled' AND last_heard_ms IS NOT NULL"
        )
        seconds = silent.join(self._cells, "store").withColumn("seconds", F.expr("(to_ms - last_heard_ms) / 1000"))
        return spread(seconds.groupBy("cell"), "seconds").orderBy("cell")

    def read_again(self) -> DataFrame:
        """Records a run that were processed more than once; without a campaign, by how much offsets went back.

        No rows where there were no records.
        """
        if self.is_campaign:
            return spread(self.runs.where("processed > 0").groupBy("cell"), "processed_twice").orderBy("cell")
        of_stores = (
            table(self._spark, self._folder, "commits").groupBy("store").agg(F.sum("reprocessed").alias("again"))
        )
        return spread(of_stores.join(self._cells, "store").groupBy("cell"), "again").orderBy("cell")

    def fan(self) -> DataFrame:
        """How many partitions had no owner, at points in time of all runs that were not over by then."""
        moments = self._moments()
        gaps = table(self._spark, self._folder, "gaps").where("why <> 'empty'").select("store", "from_ms", "to_ms")
        lost = (moments.store == gaps.store) & moments.at_ms.between(gaps.from_ms, F.coalesce(gaps.to_ms, F.lit(2**62)))
        counted = moments.join(gaps, lost, "left").groupBy(moments.cell, moments.store, moments.at_s)
        partitions = counted.agg(F.count("from_ms").alias("partitions"))
        return spread(partitions.groupBy("cell", "at_s"), "partitions").orderBy("cell", "at_s")

    def _moments(self) -> DataFrame:
        """The same points in time for all runs, up to the end of each: nobody knows what would have come then."""
        lengths = self._lengths()
        longest = lengths.agg(F.max(F.expr("end_ms - begin_ms")).alias("longest_ms"))
        after = f"explode(transform(sequence(0, {MOMENTS}), n -> n * longest_ms / {MOMENTS})) AS after_ms"
        moments = lengths.crossJoin(longest).selectExpr("cell", "store", "begin_ms", "end_ms", after)
        moments = moments.where("begin_ms + after_ms <= end_ms")
        return moments.selectExpr("cell", "store", "begin_ms + after_ms AS at_ms", "after_ms / 1000 AS at_s")

    def _lengths(self) -> DataFrame:
        """A simulation goes on behind its last event, for as long as all is well; of a store nobody knows more."""
        seen = table(self._spark, self._folder, "steps").groupBy("store")
        lengths = seen.agg(F.min("at_ms").alias("begin_ms"), F.max("at_ms").alias("last_ms"))
        ended = "ended_ms" if self.is_campaign else "NULL"
        ends = self.runs.selectExpr("store", "cell", f"{ended} AS ended_ms")
        return lengths.join(ends, "store").withColumn("end_ms", F.expr("greatest(last_ms, ended_ms)"))

    def worst(self) -> DataFrame:
        """The runs that lost most."""
        return self.runs.orderBy(F.desc("ownerless_s"), "store").limit(WORST).select("store", "cell", "ownerless_s")


def seconds_of_gaps(name: str) -> Column:
    return (F.sum(F.expr("to_ms - from_ms")) / 1000).alias(name)


def spread(grouped: GroupedData, column: str) -> DataFrame:
    """The 5th, 25th, 50th, 75th and 95th hundredths, and how many values there are."""
    parts = grouped.agg(F.expr(f"percentile({column}, {HUNDREDTHS})").alias("p"), F.count(column).alias("values"))
    names = ("p5", "p25", "p50", "p75", "p95")
    return parts.select(
        *(name for name in parts.columns if name not in ("p", "values")),
        *(F.col("p")[number].alias(name) for number, name in enumerate(names)),
        "values",
    ).where("values > 0")
