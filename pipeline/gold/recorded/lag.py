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
    """The rows of the table: one for each commit and each observed change of a log, where both are known.

    `commits` is the table of that name; `events` and `facts` are those of the same stores. A commit bounds the end of
    its log from below: after SIGKILL the last recorded responses are lost, and commits are not.
    """
    committed = commits.selectExpr(*quoted(GROUP_PARTITION), "at_ms", "position", "`offset` AS committed")
    partitions = commits.select(*GROUP_PARTITION).distinct()
    logs = observed_logs(events, facts).join(partitions, list(LOG))
    changes = (
        committed.unionByName(deleted_offsets(events, partitions))
        .selectExpr("*", "CAST(NULL AS LONG) AS end", "CAST(NULL AS LONG) AS empty_before")
        .unionByName(logs.selectExpr("*", "CAST(NULL AS LONG) AS position", "CAST(NULL AS LONG) AS committed"))
    )
    # At the same time a commit follows what was observed, since Spark puts nulls first.
    in_order = Window.partitionBy(*GROUP_PARTITION).orderBy("at_ms", "position")
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = changes.select(
        *GROUP_PARTITION,
        "at_ms",
        "position",
        F.expr("CASE WHEN end IS NULL THEN 'commit' ELSE 'log-end' END").alias("changed"),
        F.last("committed", ignorenulls=True).over(until_now).alias("committed_offset"),
        F.last("end", ignorenulls=True).over(until_now).alias("end"),
        F.last("empty_before", ignorenulls=True).over(until_now).alias("empty_before"),
    )
    found = known.where(f"committed_offset <> {NOTHING} AND end <> {NOTHING}")
    found = found.withColumn("log_end_offset", F.greatest("end", "committed_offset"))
    return found.withColumn("lag", F.expr("log_end_offset - greatest(committed_offset, empty_before)"))


def observed_logs(events: DataFrame, facts: DataFrame) -> DataFrame:
    """Each change of a log, as responses say it: store, topic, partition, at_ms, end and empty_before.

    No offset below `empty_before` has a record. Both never go back: a response that says less than an earlier one came
    late. Once a topic is deleted, its logs have no end until a response says one again.
    """
    observed = observed_ends(events, facts)
    starts = empty_starts(events, observed)
    deletions = topic_events(events, "topic-deleted").selectExpr(
        "store", "topic", "at_ms", "coordinator_epoch AS deleted_in"
    )
    deleted = observed.select(*LOG).distinct().join(deletions, ["store", "topic"])
    rows = observed.join(starts, [*LOG, "process"], "left").unionByName(
        deleted.withColumn("end", F.lit(NOTHING).cast("long")), allowMissingColumns=True
    )
    in_order = Window.partitionBy(*LOG).orderBy("at_ms", F.col("end").desc())
    rows = rows.withColumns(
        {
            "topic_number": F.count_if(F.expr(f"end = {NOTHING}")).over(in_order),
            "deleted_in": F.last("deleted_in", ignorenulls=True).over(in_order),
        }
    )
    # A topic that was made again since the process began has a log that begins at 0.
    began = F.expr("CASE WHEN deleted_in >= process THEN 0L ELSE coalesce(began, 0L) END")
    of_topic = Window.partitionBy(*LOG, "topic_number").orderBy("at_ms", "end")
    until_now = of_topic.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    highest = rows.select(
        *LOG,
        "at_ms",
        "topic_number",
        "end",
        F.max("end").over(until_now).alias("highest"),
        F.max(began).over(until_now).alias("empty_before"),
    )
    before = highest.withColumns({f"{each}_then": F.lag(each).over(of_topic) for each in ("highest", "empty_before")})
    changed = before.where("highest_then IS NULL OR highest > highest_then OR empty_before > empty_before_then")
    return changed.selectExpr(*quoted(LOG), "at_ms", "highest AS end", "empty_before")


def observed_ends(events: DataFrame, facts: DataFrame) -> DataFrame:
    """The highest end of each log that the responses of one millisecond say, and the epoch with which the process of
    the responses began."""
    names = topic_events(events, "topic-created").selectExpr("store", "topic_id", "topic AS name").distinct()
    observed = facts.where("kind = 'log-end'").join(F.broadcast(names), ["store", "topic_id"], "left")
    topic = F.coalesce("topic", "name").alias("topic")
    process = F.expr("try_cast(split_part(connection, '@', 2) AS LONG)").alias("process")
    named = observed.select("store", topic, "partition", "at_ms", F.col("offset").alias("end"), process)
    return (
        named.where("topic IS NOT NULL")
        .groupBy(*LOG, "at_ms")
        .agg(F.max("end").alias("end"), F.max("process").alias("process"))
    )


def empty_starts(events: DataFrame, observed: DataFrame) -> DataFrame:
    """Where the logs went on in each process that has answered: store, topic, partition, process and `began`.

    Records are in memory only, so a process begins with logs without records. Each goes on at the offset before which
    the last process had reserved all.
    """
    processes = observed.select(*LOG, "process").distinct()
    reserved = events.where("`group` IS NULL AND type IN ('offsets-reserved', 'topic-created')").select(
        "store",
        F.get_json_object("payload", "$.name").alias("topic"),
        F.get_json_object("payload", "$.partition").cast("int").alias("of_partition"),
        F.get_json_object("payload", "$.before").cast("long").alias("before"),
        "coordinator_epoch",
        "position",
    )
    earlier = processes.join(reserved, ["store", "topic"]).where(
        "coordinator_epoch < process AND (of_partition IS NULL OR of_partition = partition)"
    )
    return earlier.groupBy(*LOG, "process").agg(F.expr("coalesce(max_by(before, position), 0L)").alias("began"))


def topic_events(events: DataFrame, kind: str) -> DataFrame:
    """The events of this type about topics, with the name and the id of the topic."""
    return events.where(F.col("group").isNull() & (F.col("type") == kind)).select(
        "store",
        F.get_json_object("payload", "$.name").alias("topic"),
        F.get_json_object("payload", "$.topic_id").alias("topic_id"),
        "at_ms",
        "position",
        "coordinator_epoch",
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
