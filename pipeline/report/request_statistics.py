"""Statistics of members and their requests: who joined last, refused requests, late heartbeats, lag over time.

All but the first need recorded exchanges, so they have no rows for campaigns.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

FENCED: Final = (
    *("FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"),
)
"""Errors for a member or a producer whose place another one has, or whose generation is over."""
STEPS: Final = ("REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED")
"""Errors with which the protocol goes on as it should."""

PENDING_ID: Final = "a pending member id"
"""What the report calls an id that was given out and not used (KIP-394), which belongs to no member."""

SHARES: Final = {1 / 3: "up to a third", 1 / 2: "up to half", 2 / 3: "up to two thirds", 0.9: "up to 90 %"}
"""The parts of a session timeout at whose ends heartbeats are counted, with their names."""
NEARLY_ALL: Final = "90 to 100 %"
OVER_THE_TIMEOUT: Final = "more than 100 %, not removed"
AFTER_THE_END: Final = "after the removal"
UNKNOWN_SHARE: Final = "not known"
"""The share of heartbeats for which no session timeout is known, or not since when it ran."""


def last_joiners(
    generation_members: DataFrame,
    missing_joiners: DataFrame,
    lifetimes: DataFrame,
    cells: DataFrame,
    *,
    merges_stores: bool,
) -> DataFrame:
    """Who was last to join how many of its generations, and the mean seconds by which others waited for it.

    `alone_s` is the time since the last but one had joined, `with_others_s` the time before that, since the first one
    had. A member that never came was waited for until the end of the join phase. Generations that waited for one member
    are left out, and the first generation of each group. A member is named by its instance id, or else by its client
    id. `generations` counts those that waited for it. With `merges_stores` the members of one name in all stores of a
    cell are one row, whose `store` is null, as the runs of a campaign need it. Rows are ordered by the time for which
    others waited, the longest first.
    """
    waited_for = members_waited_for(generation_members, missing_joiners, lifetimes)
    times = F.sort_array(F.collect_list("until_ms"))
    generations = (
        waited_for.groupBy("store", "group", "position")
        .agg(
            times.alias("times"),
            F.max(F.struct("until_ms", "member")).alias("last"),
            F.collect_set("member").alias("members"),
        )
        .withColumn("first", F.min("position").over(Window.partitionBy("store", "group")))
        .where("position > first AND size(times) > 1")
        .join(cells, "store")
    )
    by_member = generations.select(
        "cell",
        (F.lit(None).cast("string") if merges_stores else F.col("store")).alias("store"),
        "group",
        F.explode("members").alias("member"),
        F.expr("CASE WHEN last.member = member THEN times[size(times) - 1] - times[size(times) - 2] END").alias(
            "alone"
        ),
        F.expr("CASE WHEN last.member = member THEN times[size(times) - 2] - times[0] END").alias("with_others"),
    )
    counted = by_member.groupBy("cell", "store", "group", "member").agg(
        F.count("alone").alias("times_last"),
        (F.avg("alone") / 1000).alias("alone_s"),
        (F.avg("with_others") / 1000).alias("with_others_s"),
        F.count("*").alias("generations"),
    )
    longest = F.desc(F.expr("alone_s + with_others_s"))
    return counted.where("times_last > 0").orderBy("cell", longest, "store", "group", "member")


def members_waited_for(generation_members: DataFrame, missing_joiners: DataFrame, lifetimes: DataFrame) -> DataFrame:
    """Each member or pending member id that a join phase waited for: store, group, position of the generation,
    until_ms, and its name.

    `until_ms` is when it joined, when it left or was removed, or the end of the join phase if it never came.
    """
    generation = ["store", "group", "position"]
    clients = lifetimes.groupBy("store", "group", "member_id").agg(F.max("client_id").alias("client_id"))
    # A new process of a static member that took over without a rebalance joined no generation.
    joined = (
        generation_members.where("missed OR joined_ms <= started_ms")
        .join(clients, ["store", "group", "member_id"], "left")
        .select(
            *generation,
            F.expr("if(missed, started_ms, joined_ms)").alias("until_ms"),
            F.coalesce("instance_id", "client_id", "member_id").alias("member"),
        )
    )
    of_client = F.concat(F.lit(f"{PENDING_ID} of "), "client_id")
    pending = F.when(F.col("ended_by").isin("pending", "pending-removed"), F.coalesce(of_client, F.lit(PENDING_ID)))
    missing = missing_joiners.select(
        *generation, "until_ms", F.coalesce(pending, "instance_id", "client_id", "member_id").alias("member")
    )
    return joined.unionByName(missing)


def refused_requests(refused: DataFrame, cells: DataFrame) -> DataFrame:
    """How many requests were refused, by API and error.

    A request that names several groups has a row for each of them in the table, and counts once for each error.
    """
    request = ["store", "connection", "correlation_id", "at_ms", "api", "error"]
    once = refused.groupBy(*request).agg(F.max("requests").alias("requests"))
    kind = F.when(F.col("error").isin(*FENCED), "fenced").when(F.col("error").isin(*STEPS), "step").otherwise("refused")
    counted = once.join(cells, "store").groupBy("cell", "api", "error", kind.alias("kind"))
    return counted.agg(F.sum("requests").alias("requests")).orderBy("cell", F.desc("requests"), "api", "error")


def heartbeat_shares(heartbeats: DataFrame, cells: DataFrame) -> DataFrame:
    """How many heartbeats came after which part of the session timeout was over, and how many after the removal.

    Those whose part is not known have the share `UNKNOWN_SHARE`.
    """
    used = "since_last_seen_ms / session_timeout_ms"
    in_time = " ".join(f"WHEN {used} <= {share} THEN '{name}'" for share, name in {**SHARES, 1: NEARLY_ALL}.items())
    share = F.expr(
        f"CASE WHEN ended_by = 'removed' THEN '{AFTER_THE_END}' "
        f"WHEN {used} IS NULL THEN '{UNKNOWN_SHARE}' {in_time} ELSE '{OVER_THE_TIMEOUT}' END"
    ).alias("share")
    counted = heartbeats.join(cells, "store").select("cell", "protocol", share, "requests")
    return counted.groupBy("cell", "protocol", "share").agg(F.sum("requests").alias("requests")).orderBy("cell")


def lag_periods(lag: DataFrame) -> DataFrame:
    """The lag of each partition from each of its changes to the next one: `from_ms`, and `until_ms` or null."""
    in_order = Window.partitionBy("store", "group", "topic", "partition").orderBy("at_ms", "position")
    periods = lag.select(
        "store", "lag", F.col("at_ms").alias("from_ms"), F.lead("at_ms").over(in_order).alias("until_ms")
    )
    return periods.where("until_ms IS NULL OR until_ms > from_ms")


def lags_at(times: DataFrame, lag: DataFrame) -> DataFrame:
    """The lag of each partition at each of these times of its store: cell, at_s and lag."""
    periods = lag_periods(lag)
    lasts = (
        (times.store == periods.store)
        & (times.at_ms >= periods.from_ms)
        & F.coalesce(times.at_ms < periods.until_ms, F.lit(True))
    )
    return times.join(periods, lasts).select(times.cell, times.at_s, periods["lag"])
