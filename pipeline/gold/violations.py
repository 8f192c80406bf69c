"""The invariants of classic groups as Spark SQL over the transitions of many runs: the table `violations`.

Each condition repeats one function of `coordinator.invariants` in SQL and has that function's sentence. Tests compare
the two.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regroup.coordinator import invariants as i
from regroup.coordinator.classic.transitions import TRANSITIONS
from regroup.coordinator.consumer.invariants import CONSUMER_GROUP_INVARIANTS, CONSUMER_STEP_INVARIANTS
from regroup.coordinator.group import GroupKind

LEGAL_TRANSITIONS: Final = ", ".join(
    f"'{before} {after}'" for before, targets in TRANSITIONS.items() for after in sorted(targets)
)
MEMBER_IDS: Final = "transform(members, each -> each.member_id)"
ASSIGNMENTS: Final = "array_sort(transform(members, each -> each.assignment_checksum))"
IS_CLASSIC: Final = f"protocol = '{GroupKind.CLASSIC.value}'"
HAS_GENERATION: Final = "state IN ('CompletingRebalance', 'Stable')"

STEP_CONDITIONS: Final[dict[i.StepInvariant, str]] = {
    i.a_transition_is_legal: f"""
        state <> state_before AND type <> 'coordinator-loaded'
        AND concat(state_before, ' ', state) NOT IN ({LEGAL_TRANSITIONS})""",
    i.generations_grow: """
        type <> 'coordinator-loaded' AND state_before <> 'Dead' AND state <> 'Dead'
        AND generation_id - generation_id_before NOT IN (0, 1)""",
    i.a_load_restores_what_was_stored: """
        type = 'coordinator-loaded' AND NOT (
            generation_id = stored_generation_id AND offsets_unchanged
            AND array_sort(loaded_members) = array_sort(stored_members_before))""",
}
"""SQL conditions by invariant; a row of `transitions` for which one is true violates the invariant."""

GROUP_CONDITIONS: Final[dict[i.GroupInvariant, str]] = {
    i.a_generation_has_one_leader_and_it_is_a_member: f"""
        CASE WHEN size(members) = 0 THEN leader_id IS NOT NULL
             ELSE leader_id IS NULL OR NOT array_contains({MEMBER_IDS}, leader_id) END""",
    i.responses_are_held_only_during_their_phase: """
        (exists(members, each -> each.awaiting <=> 'join') AND state <> 'PreparingRebalance')
        OR (exists(members, each -> each.awaiting <=> 'sync') AND state <> 'CompletingRebalance')""",
    i.a_join_phase_runs_only_in_preparing_rebalance: "has_join_phase <> (state = 'PreparingRebalance')",
    i.an_empty_group_has_no_members: f"""
        state <> 'PreparingRebalance' AND (size(members) > 0) <> ({HAS_GENERATION})""",
    i.a_pending_member_id_is_no_member: f"arrays_overlap(pending_join_members, {MEMBER_IDS})",
    i.every_instance_id_names_its_member: """
        array_sort(static_members) <> array_sort(transform(
            filter(members, each -> each.instance_id IS NOT NULL),
            each -> concat(each.instance_id, ' ', each.member_id)))""",
    i.every_member_supports_the_selected_protocol: f"""
        {HAS_GENERATION} AND (protocol_name IS NULL OR exists(members, each -> NOT each.supports_protocol))""",
    i.a_stable_group_is_what_the_log_holds: f"""
        state = 'Stable' AND NOT has_pending_appends AND array_sort(stored_members) <> {ASSIGNMENTS}""",
}
"""The same for invariants that hold after each command: only rows that end a command are examined."""

NUMBERS_SENTENCE: Final = i.invariant_sentence(i.event_numbers_have_no_gap)

SENTENCES: Final = {
    *map(i.invariant_sentence, STEP_CONDITIONS),
    *map(i.invariant_sentence, GROUP_CONDITIONS),
    *map(i.invariant_sentence, CONSUMER_STEP_INVARIANTS),
    *map(i.invariant_sentence, CONSUMER_GROUP_INVARIANTS),
    NUMBERS_SENTENCE,
}
"""Every sentence that the table `violations` may have, except those of events that cannot be folded."""


def find_violations(
    transitions: DataFrame, number_gaps: DataFrame, fold_errors: DataFrame, consumer_violations: DataFrame
) -> DataFrame:
    """Rows for the table `violations`: store, group, position, and the sentence that does not hold after this event.

    `number_gaps` has the events of groups whose number does not follow the number before, and `consumer_violations` has
    the invariants of groups of the consumer protocol that do not hold; the fold finds both.
    """
    conditions: list[tuple[Callable[..., object], str]] = [
        (invariant, f"{IS_CLASSIC} AND protocol_before = protocol AND ({sql})")
        for invariant, sql in STEP_CONDITIONS.items()
    ]
    conditions += [
        (invariant, f"ends_command AND {IS_CLASSIC} AND ({sql})") for invariant, sql in GROUP_CONDITIONS.items()
    ]
    violated = [F.when(F.expr(sql), F.lit(i.invariant_sentence(invariant))) for invariant, sql in conditions]
    sentences = F.explode(F.array_compact(F.array(*violated))).alias("sentence")
    columns = ("store", "group", "position")
    return (
        transitions.select(*columns, sentences)
        .unionByName(number_gaps.select(*columns, F.lit(NUMBERS_SENTENCE).alias("sentence")))
        .unionByName(fold_errors.select(*columns, "sentence"))
        .unionByName(consumer_violations.select(*columns, "sentence"))
    )
