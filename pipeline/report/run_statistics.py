"""The statistics of a report as Spark tables: distributions over runs, for each cell of a campaign."""

from typing import Final

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.campaign.runner import read_runs
from regroup.pipeline.gold.versions import current_version, read_table
from regroup.pipeline.locations.location import LocationLike, location_of

PERCENTILES: Final = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
TIME_STEPS: Final = 120
"""The number of steps in `gaps_over_time`, from the start of the runs to the end of the longest."""
WORST_RUNS: Final = 10
GAP_SECONDS: Final = "sum(to_ms - from_ms) / 1000"

NOT_OWNED_YET: Final = "not-owned-yet"
"""Gap reason of a partition that has had no owner yet. The lab does not count such gaps, so they are kept apart."""


class RunStatistics:
    """The statistics of one folder. The runs of a campaign with the same options have the same `cell`."""

    def __init__(self, spark: SparkSession, folder: LocationLike) -> None:
        self._spark, self._folder = spark, location_of(folder, spark)
        self._version = current_version(self._folder)
        self.is_campaign = (self._folder / "runs").is_folder()
        self.runs = read_runs(spark, self._folder) if self.is_campaign else self._stores()
        self._cells = self.runs.select("store", "cell")

    def frames(self) -> dict[str, DataFrame]:
        """All statistics, by the names of their folders in DIR/report."""
        return {
            "time_without_owner": self.time_without_owner(),
            "gap_reasons": self.gap_reasons(),
            "rebalance_phases": self.rebalance_phases(),
            "partition_movements": self.partition_movements(),
            "failure_detection": self.failure_detection(),
            "reprocessed_records": self.reprocessed_records(),
            "gaps_over_time": self.gaps_over_time(),
            "worst_runs": self.worst_runs(),
            "failed_runs": self.failed_runs(),
        }

    def time_without_owner(self) -> DataFrame:
        """Distribution of partition-seconds without an owner.

        Runs whose group was never Stable are left out: no partition could lose its owner. They are in `failed_runs`.
        """
        stable = self.runs.where("rebalances > 0") if self.is_campaign else self.runs
        return distribution(stable.groupBy("cell"), "ownerless_s").orderBy("cell")

    def gap_reasons(self) -> DataFrame:
        """Mean partition-seconds without an owner in a run, by reason, as far as the coordinator's events show."""
        runs = self._cells.groupBy("cell").agg(F.count("*").alias("runs"))
        lost = (
            self._gaps().join(self._cells, "store").groupBy("cell", "reason").agg(F.expr(GAP_SECONDS).alias("total_s"))
        )
        mean = F.expr("total_s / runs").alias("mean_s")
        return lost.join(runs, "cell").select("cell", "reason", mean).orderBy("cell")

    def rebalance_phases(self) -> DataFrame:
        """Distribution of the lengths of the join phase and of the sync phase, in seconds."""
        seconds = self._rebalances().selectExpr(
            "cell",
            "explode(map('join', (join_end_ms - started_ms) / 1000, 'sync', (sync_end_ms - join_end_ms) / 1000)) "
            "AS (phase, seconds)",
        )
        return distribution(seconds.groupBy("cell", "phase"), "seconds").orderBy("cell", "phase")

    def partition_movements(self) -> DataFrame:
        """Mean numbers of partitions that a rebalance moved, revoked and returned, kept, or assigned first."""
        columns = ("moved", "revoked_and_returned", "kept", "new")
        means = [F.avg(column).alias(column) for column in columns]
        return self._rebalances().groupBy("cell", "protocol_name").agg(*means).orderBy("cell")

    def failure_detection(self) -> DataFrame:
        """Distribution of the seconds between a removed member's last request and its removal."""
        removed = self._table("member_lifetimes").where("ended_by = 'removed' AND last_seen_ms IS NOT NULL")
        seconds = removed.join(self._cells, "store").withColumn("seconds", F.expr("(to_ms - last_seen_ms) / 1000"))
        return distribution(seconds.groupBy("cell"), "seconds").orderBy("cell")

    def reprocessed_records(self) -> DataFrame:
        """Distribution of the records that a run processed again.

        In ingested stores it is the number of offsets by which commits went back instead.

        Runs without records are left out.
        """
        if self.is_campaign:
            return distribution(self.runs.where("processed > 0").groupBy("cell"), "processed_twice").orderBy("cell")
        of_stores = self._table("commits").groupBy("store").agg(F.sum("reprocessed").alias("records"))
        return distribution(of_stores.join(self._cells, "store").groupBy("cell"), "records").orderBy("cell")

    def gaps_over_time(self) -> DataFrame:
        """Distribution of the number of partitions without an owner, over the runs that have not ended at that time."""
        times = self._times()
        gaps = self._table("gaps").where("reason <> 'empty'").select("store", "from_ms", "to_ms")
        lasts = (times.store == gaps.store) & times.at_ms.between(gaps.from_ms, F.coalesce(gaps.to_ms, F.lit(2**62)))
        counted = times.join(gaps, lasts, "left").groupBy(times.cell, times.store, times.at_s)
        partitions = counted.agg(F.count("from_ms").alias("partitions"))
        return distribution(partitions.groupBy("cell", "at_s"), "partitions").orderBy("cell", "at_s")

    def worst_runs(self) -> DataFrame:
        """The runs with the most partition-seconds without an owner."""
        worst = self.runs.orderBy(F.desc("ownerless_s"), "store").limit(WORST_RUNS)
        return worst.select("store", "cell", "ownerless_s")

    def failed_runs(self) -> DataFrame:
        """Cells with violations: the number of runs, of failed runs, and one failed run with its first sentence."""
        if not self.is_campaign:
            return self._cells.limit(0)
        failed = F.expr("size(violations) > 0")
        return (
            self.runs.groupBy("cell")
            .agg(
                F.count("*").alias("runs"),
                F.count_if(failed).alias("failed"),
                F.min(F.when(failed, F.struct("store", F.col("violations")[0].alias("sentence")))).alias("first"),
            )
            .where("failed > 0")
            .select("cell", "runs", "failed", "first.store", "first.sentence")
            .orderBy("cell")
        )

    def _table(self, name: str) -> DataFrame:
        return read_table(self._spark, self._folder, name, self._version)

    def _stores(self) -> DataFrame:
        """Ingested stores as runs of one cell. Only their gaps show how long partitions had no owner."""
        stores = self._table("groups").select("store").distinct()
        gaps = self._gaps().where(F.col("reason") != NOT_OWNED_YET)
        lost = gaps.groupBy("store").agg(F.expr(GAP_SECONDS).alias("ownerless_s"))
        return stores.join(lost, "store", "left").select(
            "store", F.lit("all stores").alias("cell"), F.coalesce("ownerless_s", F.lit(0.0)).alias("ownerless_s")
        )

    def _gaps(self) -> DataFrame:
        """The gaps that have ended, of groups with members, from the group's first assignment on."""
        first = self._table("rebalances").groupBy("store", "group").agg(F.min("sync_end_ms").alias("first_ms"))
        partition = ["store", "group", "topic", "partition"]
        owned = self._table("ownership").groupBy(*partition)
        gaps = (
            self._table("gaps")
            .join(first, ["store", "group"])
            .join(owned.agg(F.min("from_ms").alias("owned_ms")), partition, "left")
            .where("from_ms >= first_ms AND to_ms IS NOT NULL AND reason <> 'empty'")
        )
        reason = F.when(F.expr("owned_ms <= from_ms"), F.col("reason")).otherwise(NOT_OWNED_YET)
        return gaps.withColumn("reason", reason)

    def _rebalances(self) -> DataFrame:
        """The completed rebalances, except the first one of each group."""
        completed = self._table("rebalances").where("outcome = 'completed' AND NOT is_initial")
        return completed.join(self._cells, "store")

    def _times(self) -> DataFrame:
        """A row for each run and each of the same times after its start, up to its end.

        A run ends with the simulation, or with the last event of a store.
        """
        events = self._table("transitions").groupBy("store")
        bounds = events.agg(F.min("at_ms").alias("begin_ms"), F.max("at_ms").alias("last_ms"))
        ends = self.runs.selectExpr("store", "cell", f"{'ended_ms' if self.is_campaign else 'NULL'} AS ended_ms")
        runs = bounds.join(ends, "store").withColumn("end_ms", F.expr("greatest(last_ms, ended_ms)"))
        longest = runs.agg(F.max(F.expr("end_ms - begin_ms")).alias("longest_ms"))
        after = f"explode(transform(sequence(0, {TIME_STEPS}), n -> n * longest_ms / {TIME_STEPS})) AS after_ms"
        times = runs.crossJoin(longest).selectExpr("cell", "store", "begin_ms", "end_ms", after)
        times = times.where("begin_ms + after_ms <= end_ms")
        return times.selectExpr("cell", "store", "begin_ms + after_ms AS at_ms", "after_ms / 1000 AS at_s")


def distribution(grouped: GroupedData, column: str) -> DataFrame:
    """The percentiles of a column in each group, and the number of its values."""
    shares = ", ".join(map(str, PERCENTILES.values()))
    percentiles = F.expr(f"percentile({column}, array({shares}))").alias("percentiles")
    parts = grouped.agg(percentiles, F.count(column).alias("value_count"))
    return parts.select(
        *(name for name in parts.columns if name not in ("percentiles", "value_count")),
        *(F.col("percentiles")[number].alias(name) for number, name in enumerate(PERCENTILES)),
        "value_count",
    ).where("value_count > 0")
