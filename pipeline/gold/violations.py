"""The coordinator's invariants as Spark SQL over the steps of many runs: the table `violations`.

Each is the SQL of one function in `coordinator.invariants`, and bears its sentence; the two must agree (tests hold them
to it), for they are written twice: here over columns, there over the group itself.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from regroup.coordinator import invariants as i
from regroup.coordinator.classic.transitions import MOVES
from regroup.pipeline.source.columns import SNAPSHOT

LEGAL: Final = ", ".join(f"'{before} {after}'" for before, targets in MOVES.items() for after in sorted(targets))
MEMBER_IDS: Final = "transform(members, each -> each.member)"
SHARES: Final = "array_sort(transform(members, each -> each.share))"
GENERATION_BEGAN: Final = "state IN ('CompletingRebalance', 'Stable')"

OF_STEPS: Final[dict[i.OfStep, str]] = {
    i.a_move_is_legal: f"""
        state <> state_before AND type <> 'coordinator-loaded'
        AND concat(state_before, ' ', state) NOT IN ({LEGAL})""",
    i.generations_grow: """
        type <> 'coordinator-loaded' AND state_before <> 'Dead' AND state <> 'Dead'
        AND generation - generation_before NOT IN (0, 1)""",
    i.a_load_brings_back_what_was_stored: """
        type = 'coordinator-loaded' AND NOT (
            generation = stored_generation AND offsets_were_kept
            AND array_sort(loaded) = array_sort(stored_before))""",
}
"""What must not be true of any row of `steps`."""

OF_GROUPS: Final[dict[i.OfGroup, str]] = {
    i.a_generation_has_one_leader_and_it_is_a_member: f"""
        CASE WHEN size(members) = 0 THEN leader IS NOT NULL
             ELSE leader IS NULL OR NOT array_contains({MEMBER_IDS}, leader) END""",
    i.only_a_group_between_generations_waits_for_joins: """
        (exists(members, each -> each.waiting <=> 'join') AND state <> 'PreparingRebalance')
        OR (exists(members, each -> each.waiting <=> 'sync') AND state <> 'CompletingRebalance')""",
    i.a_join_phase_runs_exactly_while_the_group_prepares: "has_join_phase <> (state = 'PreparingRebalance')",
    i.an_empty_group_has_no_members: f"""
        state <> 'PreparingRebalance' AND (size(members) > 0) <> ({GENERATION_BEGAN})""",
    i.a_reserved_id_is_no_member: f"arrays_overlap(reserved_ids, {MEMBER_IDS})",
    i.every_instance_id_names_its_member: """
        array_sort(instances) <> array_sort(transform(
            filter(members, each -> each.instance_id IS NOT NULL),
            each -> concat(each.instance_id, ' ', each.member)))""",
    i.a_generation_works_with_a_protocol_that_all_support: f"""
        {GENERATION_BEGAN} AND (protocol IS NULL OR exists(members, each -> NOT each.supports_protocol))""",
    i.a_stable_group_is_what_the_log_holds: f"state = 'Stable' AND NOT has_appends AND array_sort(stored) <> {SHARES}",
}
"""The same, of a group at rest."""

SENTENCES: Final = {*map(i.sentence, OF_STEPS), *map(i.sentence, OF_GROUPS), i.sentence(i.numbers_have_no_gap)}
"""All that can be found so, beside events that cannot be folded."""


def violations(steps: DataFrame, events: DataFrame, faults: DataFrame) -> DataFrame:
    """Every row: store, group, position, and the sentence that does not hold after this event."""
    found = of_steps(steps).unionByName(of_numbers(events))
    return found.unionByName(faults.select("store", "group", "position", "sentence"))


def of_steps(steps: DataFrame) -> DataFrame:
    """One pass over the steps: each row is asked everything, and answers with the sentences that it breaks."""
    broken = [F.when(F.expr(sql), F.lit(i.sentence(each))) for each, sql in OF_STEPS.items()]
    broken += [F.when(F.expr(f"at_rest AND ({sql})"), F.lit(i.sentence(each))) for each, sql in OF_GROUPS.items()]
    sentences = F.explode(F.array_compact(F.array(*broken))).alias("sentence")
    return steps.select("store", "group", "position", sentences)


def of_numbers(events: DataFrame) -> DataFrame:
    """Numbers within a group, and where they leave one out."""
    in_order = Window.partitionBy("store", "group").orderBy("position")
    numbered = events.where(F.col("group").isNotNull()).select(
        "store", "group", "position", "type", "number", F.lag("number", 1, 0).over(in_order).alias("last")
    )
    # What stands for a trimmed past may have any number; the next event goes on from there.
    return numbered.where(f"type <> '{SNAPSHOT}' AND number <> last + 1").select(
        "store", "group", "position", F.lit(i.sentence(i.numbers_have_no_gap)).alias("sentence")
    )
