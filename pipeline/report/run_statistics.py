"""The statistics of a report as Spark tables: distributions over runs, for each cell of a campaign."""

from typing import Final

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.campaign.runner import read_runs, stored_campaign
from regroup.pipeline.gold.versions import current_version, read_table
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.report.paired_differences import measured, paired_differences
from regroup.pipeline.report.request_statistics import heartbeat_shares, lags_at, last_joiners, refused_requests

PERCENTILES: Final = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
TIME_STEPS: Final = 120
"""The number of steps in `gaps_over_time`, from the start of the runs to the end of the longest."""
WORST_RUNS: Final = 10
GAP_SECONDS: Final = "sum(until_ms - from_ms) / 1000"

OWNERLESS_S: Final = "coalesce(disturbed_ownerless_s, ownerless_s)"
"""Of a run of an older release, only the time without an owner of the whole run is known."""

NOT_OWNED_YET: Final = "not-owned-yet"
"""Gap reason of a partition that has had no owner yet. The lab does not count such gaps, so they are kept apart."""


class RunStatistics:
    """Computes the statistics of one folder over its runs. Runs with the same options form a cell; `cell` names it."""

    def __init__(self, spark: SparkSession, folder: LocationLike) -> None:
        self._spark, self._folder = spark, location_of(folder, spark)
        self._version = current_version(self._folder)
        self.is_campaign = (self._folder / "runs").is_folder()
        self.runs = read_runs(spark, self._folder) if self.is_campaign else self._stores()
        self._cells = self.runs.select("store", "cell")
        self.has_recordings = bool((self._folder / "exchanges").files("blocks-*.parquet", below=True))

    def frames(self) -> dict[str, DataFrame]:
        """All statistics, by the names of their folders in DIR/report."""
        return {
            "time_without_owner": self.time_without_owner(),
            "gap_reasons": self.gap_reasons(),
            "group_formation": self.group_formation(),
            "convergence": self.convergence(),
            "rebalance_phases": self.rebalance_phases(),
            "reconciliation_phases": self.reconciliation_phases(),
            "partition_movements": self.partition_movements(),
            "failure_detection": self.failure_detection(),
            "removals": self.removals(),
            "reprocessed_records": self.reprocessed_records(),
            "gaps_over_time": self.gaps_over_time(),
            **self.of_requests(),
            "worst_runs": self.worst_runs(),
            "failed_runs": self.failed_runs(),
            "paired_differences": self.paired_differences(),
        }

    def time_without_owner(self) -> DataFrame:
        """Distribution of partition-seconds without an owner, in a campaign from the first disturbance on.

        Runs whose group was never Stable are left out: no partition could lose its owner. They are in `failed_runs`.
        """
        seconds = self._stable_runs().withColumn("seconds", F.expr(OWNERLESS_S if self.is_campaign else "ownerless_s"))
        return distribution(seconds.groupBy("cell"), "seconds").orderBy("cell")

    def group_formation(self) -> DataFrame:
        """Distribution of partition-seconds without an owner before the first disturbance of a run of a campaign."""
        if not self.is_campaign:
            return self._no_seconds()
        seconds = self._stable_runs().withColumn("seconds", F.expr("ownerless_s - disturbed_ownerless_s"))
        return distribution(seconds.groupBy("cell"), "seconds").orderBy("cell")

    def convergence(self) -> DataFrame:
        """Distribution of the seconds from a disturbance to the last change of an owner, in campaigns."""
        if not self.is_campaign:
            return self._no_seconds()
        return distribution(self._stable_runs().where("disturbances > 0").groupBy("cell"), "convergence_s").orderBy(
            "cell"
        )

    def _stable_runs(self) -> DataFrame:
        return self.runs.where("rebalances > 0 OR reconciliations > 0") if self.is_campaign else self.runs

    def _no_seconds(self) -> DataFrame:
        return distribution(self._cells.limit(0).withColumn("seconds", F.lit(0.0)).groupBy("cell"), "seconds")

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

    def reconciliation_phases(self) -> DataFrame:
        """Distribution of the seconds until the target was computed, and until every member had reached it."""
        seconds = self._reconciliations().selectExpr(
            "cell",
            "explode(map('target', (target_ms - bumped_ms) / 1000, 'members', (ended_ms - target_ms) / 1000)) "
            "AS (phase, seconds)",
        )
        return distribution(seconds.groupBy("cell", "phase"), "seconds").orderBy("cell", "phase")

    def partition_movements(self) -> DataFrame:
        """Mean numbers of partitions that a rebalance moved, revoked and returned, kept, or assigned first.

        Of groups of the consumer protocol these are the numbers of a reconciliation, with the coordinator's assignor.
        """
        columns = ("moved", "revoked_and_returned", "kept", "new")
        means = [F.avg(column).alias(column) for column in columns]
        of_consumers = self._reconciliations().withColumnRenamed("assignor", "protocol_name")
        kinds = [each.select("cell", "protocol_name", *columns) for each in (self._rebalances(), of_consumers)]
        return kinds[0].unionByName(kinds[1]).groupBy("cell", "protocol_name").agg(*means).orderBy("cell")

    def failure_detection(self) -> DataFrame:
        """Distribution of the seconds between a removed member's last request and its removal."""
        removed = self._table("member_lifetimes").where("ended_by = 'removed' AND last_seen_ms IS NOT NULL")
        seconds = removed.join(self._cells, "store").withColumn("seconds", F.expr("(to_ms - last_seen_ms) / 1000"))
        return distribution(seconds.groupBy("cell"), "seconds").orderBy("cell")

    def removals(self) -> DataFrame:
        """Mean numbers of members that the coordinator removed in a run: of those whose processes went on, such as
        paused ones, and of those whose processes had ended. No rows for stores, nor for runs of an older release."""
        if not self.is_campaign:
            return self._cells.limit(0)
        counted = self._stable_runs().where("live_removals IS NOT NULL").groupBy("cell")
        live, ended = F.avg("live_removals"), F.avg(F.expr("removals - live_removals"))
        return counted.agg(live.alias("live"), ended.alias("ended")).orderBy("cell")

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
        # Where one gap of a partition ends, its next one may begin: that moment belongs to the next one.
        has_begun, ends_later = times.at_ms >= gaps.from_ms, F.coalesce(times.at_ms < gaps.to_ms, F.lit(True))
        lasts = (times.store == gaps.store) & has_begun & ends_later
        counted = times.join(gaps, lasts, "left").groupBy(times.cell, times.store, times.at_s)
        partitions = counted.agg(F.count("from_ms").alias("partitions"))
        return distribution(partitions.groupBy("cell", "at_s"), "partitions").orderBy("cell", "at_s")

    def of_requests(self) -> dict[str, DataFrame]:
        """The statistics of members and their requests, which are those of `request_statistics`."""
        lags = lags_at(self._times(), self._table("lag"))
        members, lifetimes = self._table("generation_members"), self._table("member_lifetimes")
        missing = self._table("missing_joiners")
        return {
            "last_joiners": last_joiners(members, missing, lifetimes, self._cells, merges_stores=self.is_campaign),
            "refused_requests": refused_requests(self._table("refused_requests"), self._cells),
            "heartbeat_shares": heartbeat_shares(self._table("heartbeats"), self._cells),
            "lag_over_time": distribution(lags.groupBy("cell", "at_s"), "lag").orderBy("cell", "at_s"),
        }

    def worst_runs(self) -> DataFrame:
        """The runs with the most partition-seconds without an owner."""
        runs = self.runs.withColumn("ownerless_s", F.expr(OWNERLESS_S)) if self.is_campaign else self.runs
        worst = runs.orderBy(F.desc("ownerless_s"), "store").limit(WORST_RUNS)
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

    def paired_differences(self) -> DataFrame:
        """The differences between cells of a campaign, from run to run with the same seed; no rows for stores."""
        campaign = stored_campaign(self._folder) if self.is_campaign else None
        found = paired_differences(campaign, measured(self.runs.collect())) if campaign else []
        schema = (
            "cell string, baseline string, measure string, pairs long, mean_difference double, low double, "
            "high double, pairs_needed long"
        )
        return self._spark.createDataFrame([tuple(each) for each in found], schema)

    def _table(self, name: str) -> DataFrame:
        return read_table(self._spark, self._folder, name, self._version)

    def _stores(self) -> DataFrame:
        """The ingested stores as runs that all belong to one cell.

        Of these runs only the gaps show how long partitions had no owner.
        """
        stores = self._table("groups").select("store").distinct()
        gaps = self._gaps().where(F.col("reason") != NOT_OWNED_YET)
        lost = gaps.groupBy("store").agg(F.expr(GAP_SECONDS).alias("ownerless_s"))
        return stores.join(lost, "store", "left").select(
            "store", F.lit("all stores").alias("cell"), F.coalesce("ownerless_s", F.lit(0.0)).alias("ownerless_s")
        )

    def _gaps(self) -> DataFrame:
        """The gaps of groups with members, from the group's first assignment on.

        `until_ms` is the end of the gap, or that of its run if the gap has not ended.
        """
        assigned = self._table("rebalances").selectExpr("store", "group", "sync_end_ms AS at_ms")
        targets = self._table("reconciliations").selectExpr("store", "group", "target_ms AS at_ms")
        first = assigned.unionByName(targets).groupBy("store", "group").agg(F.min("at_ms").alias("first_ms"))
        gaps = (
            self._table("gaps")
            .join(first, ["store", "group"])
            .where("from_ms >= first_ms AND reason <> 'empty'")
            .join(self._bounds().select("store", "end_ms"), "store")
            .withColumn("until_ms", F.expr("coalesce(to_ms, end_ms)"))
        )
        reason = F.when(F.col("was_owned"), F.col("reason")).otherwise(NOT_OWNED_YET)
        return gaps.withColumn("reason", reason)

    def _rebalances(self) -> DataFrame:
        """The completed rebalances, except the first one of each group."""
        completed = self._table("rebalances").where("outcome = 'completed' AND NOT is_initial")
        return completed.join(self._cells, "store")

    def _reconciliations(self) -> DataFrame:
        """The completed reconciliations, except those of groups that had no members before."""
        completed = self._table("reconciliations").where("outcome = 'completed' AND members_before > 0")
        return completed.join(self._cells, "store")

    def _bounds(self) -> DataFrame:
        """The beginning and the end of each run, which ends with the simulation, or with the last event of a store."""
        events = self._table("transitions").groupBy("store")
        bounds = events.agg(F.min("at_ms").alias("begin_ms"), F.max("at_ms").alias("end_ms"))
        if not self.is_campaign:
            return bounds
        ends = self.runs.select("store", "ended_ms")
        return bounds.join(ends, "store").withColumn("end_ms", F.greatest("end_ms", "ended_ms")).drop("ended_ms")

    def _times(self) -> DataFrame:
        """A row for each run and each of a fixed number of times after its start, the same for all runs, up to its
        end."""
        runs = self._bounds().join(self._cells, "store")
        longest = runs.agg(F.max(F.expr("end_ms - begin_ms")).alias("longest_ms"))
        after = f"explode(transform(sequence(0, {TIME_STEPS}), n -> n * longest_ms / {TIME_STEPS})) AS after_ms"
        times = runs.crossJoin(longest).selectExpr("cell", "store", "begin_ms", "end_ms", after)
        times = times.where("begin_ms + after_ms <= end_ms")
        return times.selectExpr("cell", "store", "begin_ms + after_ms AS at_ms", "after_ms / 1000 AS at_s")


def distribution(grouped: GroupedData, column: str) -> DataFrame:
    """The percentiles of a column in each group of rows, and the number of its values that are not null."""
    shares = ", ".join(map(str, PERCENTILES.values()))
    percentiles = F.expr(f"percentile({column}, array({shares}))").alias("percentiles")
    parts = grouped.agg(percentiles, F.count(column).alias("value_count"))
    return parts.select(
        *(name for name in parts.columns if name not in ("percentiles", "value_count")),
        *(F.col("percentiles")[number].alias(name) for number, name in enumerate(PERCENTILES)),
        "value_count",
    ).where("value_count > 0")
