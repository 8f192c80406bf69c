"""The table `lag`: committed offsets beside the observed ends of the logs, by Spark's window functions."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

GROUP_PARTITION: Final = ("store", "group", "topic", "partition")
LOG: Final = ("store", "topic", "partition")
NOTHING: Final = -1
"""Stands for an offset that was deleted, and for the end of a log whose topic was deleted."""


def lag_table(commits: DataFrame, events: DataFrame, facts: DataFrame) -> DataFrame:
    """The rows of the table: one for each commit and each observed change of a log's end, where both are known.

    `commits` is the table of that name; `events` and `facts` are those of the same stores.
    """
    committed = commits.selectExpr(*quoted(GROUP_PARTITION), "at_ms", "position", "`offset` AS committed")
    partitions = commits.select(*GROUP_PARTITION).distinct()
    ends = log_ends(events, facts).join(partitions, list(LOG))
    changes = (
        committed.unionByName(deleted_offsets(events, partitions))
        .selectExpr("*", "CAST(NULL AS LONG) AS end")
        # At the same time a commit follows the end that was observed.
        .unionByName(ends.selectExpr("*", "0L AS position", "CAST(NULL AS LONG) AS committed"))
    )
    in_order = Window.partitionBy(*GROUP_PARTITION).orderBy("at_ms", "position")
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = changes.select(
        *GROUP_PARTITION,
        "at_ms",
        F.expr("CASE WHEN end IS NULL THEN 'commit' ELSE 'log-end' END").alias("changed"),
        F.last("committed", ignorenulls=True).over(until_now).alias("committed_offset"),
        F.last("end", ignorenulls=True).over(until_now).alias("log_end_offset"),
    )
    found = known.where(f"committed_offset <> {NOTHING} AND log_end_offset <> {NOTHING}")
    return found.withColumn("lag", F.expr("log_end_offset - committed_offset"))


def log_ends(events: DataFrame, facts: DataFrame) -> DataFrame:
    """Each change of the end of a log, as responses say it: store, topic, partition, at_ms and end.

    An end never goes back: a response that says less than an earlier one came late. Once a topic is deleted, its logs
    have no end until a response says one again.
    """
    observed = observed_ends(events, facts)
    deletions = topic_events(events, "topic-deleted").select("store", "topic", "at_ms")
    deleted = observed.select(*LOG).distinct().join(deletions, ["store", "topic"])
    rows = observed.unionByName(deleted.withColumn("end", F.lit(NOTHING).cast("long")))
    in_order = Window.partitionBy(*LOG).orderBy("at_ms", F.col("end").desc())
    rows = rows.withColumn("topic_number", F.count_if(F.expr(f"end = {NOTHING}")).over(in_order))
    of_topic = Window.partitionBy(*LOG, "topic_number").orderBy("at_ms", "end")
    until_now = of_topic.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    highest = rows.withColumn("highest", F.max("end").over(until_now))
    before = highest.withColumn("before", F.lag("highest").over(of_topic))
    changed = before.where("before IS NULL OR highest > before")
    return changed.selectExpr(*quoted(LOG), "at_ms", "highest AS end")


def observed_ends(events: DataFrame, facts: DataFrame) -> DataFrame:
    """The highest end of each log that the responses of one millisecond say."""
    names = topic_events(events, "topic-created").selectExpr("store", "topic_id", "topic AS name").distinct()
    observed = facts.where("kind = 'log-end'").join(F.broadcast(names), ["store", "topic_id"], "left")
    topic = F.coalesce("topic", "name").alias("topic")
    named = observed.select("store", topic, "partition", "at_ms", F.col("offset").alias("end"))
    return named.where("topic IS NOT NULL").groupBy(*LOG, "at_ms").agg(F.max("end").alias("end"))


def topic_events(events: DataFrame, kind: str) -> DataFrame:
    """The events of this type about topics, with the name and the id of the topic."""
    return events.where(F.col("group").isNull() & (F.col("type") == kind)).select(
        "store",
        F.get_json_object("payload", "$.name").alias("topic"),
        F.get_json_object("payload", "$.topic_id").alias("topic_id"),
        "at_ms",
        "position",
    )


def deleted_offsets(events: DataFrame, partitions: DataFrame) -> DataFrame:
    """The deletions of committed offsets, by themselves or with their group, as commits of nothing."""
    columns = ("store", "`group`", "at_ms", "position")
    listed = (
        events.where("type = 'offsets-deleted'")
        .select("*", F.from_json(F.get_json_object("payload", "$.partitions"), "map<string, array<int>>").alias("map"))
        .selectExpr(*columns, "explode(map) AS (topic, indexes)")
        .selectExpr(*columns, "topic", "explode(indexes) AS partition")
    )
    groups = events.where("type = 'group-deleted'").selectExpr(*columns)
    of_groups = partitions.join(groups, ["store", "group"]).select(*listed.columns)
    return listed.unionByName(of_groups).withColumn("committed", F.lit(NOTHING).cast("long"))


def quoted(names: Sequence[str]) -> list[str]:
    return [f"`{name}`" for name in names]
