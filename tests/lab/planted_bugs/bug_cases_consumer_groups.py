"""Cases of bugs of the consumer protocol: a small run in which the lab finds each of them."""

from collections.abc import Callable
from typing import Any

from regroup.lab.checker import coordinator_invariants as c
from regroup.lab.checker.consumer import classic_members as classic
from regroup.lab.checker.consumer import invariants as i
from regroup.lab.checker.consumer import steps
from regroup.lab.checker.consumer.groups import MIGRATION_KEEPS_MEMBERS
from regroup.lab.checker.consumer.patterns import SEARCHES_IN_TIME
from regroup.lab.checker.coordinator_invariants import an_upgrade_starts_all_sessions_again
from regroup.lab.checker.members.member_invariants import ONLY_OWNED_PARTITIONS
from regroup.lab.checker.members.membership.assignments import TAKES_NOTHING_IN_FLIGHT
from regroup.lab.checker.members.membership.fenced_members import FENCED_COMMITS_NOTHING
from regroup.lab.checker.members.poll_timeouts import LEAVES_AFTER_THE_LIMIT, LEAVES_AT_THE_LIMIT
from regroup.lab.checker.members.retries import WAITS_BEFORE_REPEATING
from regroup.lab.checker.responses.descriptions import a_description_shows_the_stored_epochs
from regroup.lab.checker.store import store_invariants as store
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.planted_bugs.bug import PlantedBug
from regroup.lab.planted_bugs.consumer import groups, offsets, timeouts
from regroup.lab.planted_bugs.consumer import mixed_groups as mixed
from regroup.lab.simulation.recovery import RECOVERY_INVARIANT
from regroup.lab.simulation.run import play
from tests.lab.planted_bugs.bug_cases import BugCase

RUN = """\
scenario: Members of the consumer protocol
topics: {{orders: 4}}
settings: {{group.consumer.session.timeout.ms: 10000, group.consumer.min.session.timeout.ms: 10000}}
members:
  anna: {{{anna}}}
  ben: {{protocol: consumer}}
  carla: {{session timeout: 10s, heartbeat interval: 1s}}
steps:
  - at 0s: [{first}]
  - at 8s: {second}
  - {step}
faults end at: 25s
recovers within: 20s
{workload}
"""
ANNA = "protocol: consumer"
STATIC = "protocol: consumer, instance id: anna-1"
SLOW = ", faults: ['slow-revoke:12s']"
WORKLOAD = "workload: {records per s: 1}"
CLASSIC = {"first": "carla joins, anna joins", "anna": "session timeout: 10s, auto commit interval: 1s"}
LOST = "after anna revokes partitions: the response to anna's next ConsumerGroupHeartbeat is lost"

CONSUMER_BUG_CASES: list[BugCase] = []


def finds(
    sentence: str,
    step: str = "at 20s: ben leaves",
    *,
    anna: str = ANNA,
    first: str = "anna joins",
    second: str = "ben joins",
    workload: str = "",
) -> bool:
    """Whether a run violates the invariant of this sentence."""
    text = RUN.format(anna=anna, first=first, second=second, step=step, workload=workload)
    return sentence in play(read_plan(text)).verdict.sentences


def sentence_of(invariant: Callable[..., Any] | str) -> str:
    if isinstance(invariant, str):
        return invariant
    return " ".join((invariant.__doc__ or "").split("\n\n")[0].split())


def found_by(bug: PlantedBug, invariant: Callable[..., Any] | str, *step: str, **options: str) -> None:
    """A case: the run violates the invariant with the bug, and not without it."""
    run = lambda: finds(sentence_of(invariant), *step, **options)  # noqa: E731
    CONSUMER_BUG_CASES.append(BugCase(bug, run, expected=False, with_bug=True))


found_by(groups.partition_is_given_before_its_release, i.a_partition_is_free_before_it_is_assigned)
found_by(groups.heartbeat_names_the_previous_epoch, i.epochs_of_a_member_never_run_back)
found_by(groups.member_at_the_target_keeps_the_rest, i.a_member_at_the_target_has_nothing_outside_it)
found_by(groups.removed_member_goes_on, i.only_a_present_epoch_is_accepted, "at 10s: ben pauses for 14s")
found_by(groups.refused_heartbeat_bumps_the_epoch, i.a_fenced_request_changes_nothing, "at 10s: ben pauses for 14s")
found_by(
    *(groups.heartbeat_with_any_older_epoch_is_accepted, i.a_heartbeat_gets_the_error_of_the_rules),
    "at 17s: [carla joins, ben leaves]\n  - at 24s: a client sends a heartbeat of anna with epoch 1",
)
found_by(
    *(groups.previous_epoch_needs_no_report, i.a_heartbeat_gets_the_error_of_the_rules),
    "at 16s: a client sends Heartbeat of anna with the generation before",
)
found_by(groups.target_is_computed_for_joins_alone, RECOVERY_INVARIANT)
found_by(groups.away_member_loses_its_partitions, store.both_folds_agree, "at 20s: anna leaves", anna=STATIC)
found_by(
    groups.away_member_keeps_what_it_had_to_give_up,
    store.both_folds_agree,
    "at 15s: anna leaves",
    anna=STATIC + SLOW,
)
found_by(groups.step_keeps_one_partition_too_many, steps.what_a_step_keeps_was_in_its_target)
found_by(groups.partition_is_released_unasked, i.only_its_owner_releases_a_partition, anna=ANNA + SLOW)
found_by(groups.previous_epoch_is_fenced, i.a_heartbeat_gets_the_error_of_the_rules, LOST)
found_by(groups.every_heartbeat_bumps_the_epoch, i.a_heartbeat_bumps_the_group_epoch_once)
found_by(groups.changed_assignment_is_not_sent, i.a_response_says_what_is_stored)
found_by(
    groups.full_heartbeat_gets_no_assignment,
    i.a_full_heartbeat_gets_its_assignment,
    "at 20s: the response to anna's next ConsumerGroupHeartbeat is lost",
)
found_by(
    groups.description_shows_no_target,
    a_description_shows_the_stored_epochs,
    "at 9s: an administrator describes group lab",
    anna=ANNA + SLOW,
)
found_by(
    groups.new_topic_starts_no_search,
    SEARCHES_IN_TIME,
    "at 4s: topic orders-2 is created with 2 partitions",
    anna=ANNA + ", pattern: orders.*",
)
COMMIT, ZOMBIE = i.a_commit_gets_the_error_of_the_rules, "at 9s: anna becomes a zombie"
BRIEF = ANNA + ", session timeout: 6s"
found_by(offsets.any_epoch_commits, COMMIT, ZOMBIE, anna=BRIEF, workload=WORKLOAD)
found_by(*(offsets.empty_group_takes_every_commit, COMMIT, ZOMBIE), anna=BRIEF, second="anna joins", workload=WORKLOAD)
found_by(
    *(offsets.older_epoch_commits_nothing, COMMIT, LOST),
    anna=ANNA + ", auto commit interval: 50ms",
    workload=WORKLOAD,
)
found_by(
    *(offsets.older_epoch_commits_everything, COMMIT),
    "at 16s: a client sends OffsetCommit of anna with the generation before",
)
found_by(offsets.upgrade_forgets_a_member, MIGRATION_KEEPS_MEMBERS, **CLASSIC)
found_by(
    offsets.upgrade_forgets_offsets,
    store.a_migration_keeps_acknowledged_offsets,
    **CLASSIC,
    workload=WORKLOAD,
)
found_by(offsets.downgrade_forgets_a_member, MIGRATION_KEEPS_MEMBERS, **CLASSIC)
found_by(
    offsets.load_begins_members_at_epoch_0,
    store.answers_to_consumers_survive,
    "at 15s: the brokers crash for 1s",
)
found_by(timeouts.consumer_session_never_expires, RECOVERY_INVARIANT, "at 20s: ben crashes")
found_by(
    *(
        timeouts.revocation_never_times_out,
        c.no_deadline_is_missed,
        "at 8s: anna receives nothing from all hosts for 14s",
    ),
    anna=ANNA + ", max poll interval: 5s",
)
found_by(
    *(timeouts.revocation_timeout_has_no_timer, c.no_deadline_is_missed),
    "after anna revokes partitions: anna is cut off from all hosts for 7s",
    anna=ANNA + ", max poll interval: 3s",
)
found_by(timeouts.consumer_heartbeat_does_not_renew_the_session, c.an_active_session_does_not_expire)
found_by(timeouts.consumer_commit_keeps_its_member, c.a_commit_starts_no_session_of_a_consumer_group, workload=WORKLOAD)
found_by(timeouts.member_goes_on_with_what_it_gave_up, ONLY_OWNED_PARTITIONS, workload=WORKLOAD)
found_by(timeouts.member_takes_new_partitions_only, RECOVERY_INVARIANT)
found_by(timeouts.fenced_member_commits, FENCED_COMMITS_NOTHING, "at 9s: anna pauses for 14s", workload=WORKLOAD)
found_by(
    timeouts.member_takes_partitions_during_a_heartbeat,
    TAKES_NOTHING_IN_FLIGHT,
    "at 13s: [the network takes 2600ms for 12s, ben leaves]",
    workload=WORKLOAD,
)
found_by(
    timeouts.member_does_not_wait_for_a_load, WAITS_BEFORE_REPEATING, "at 14s: [the disk is full for 3s, ben leaves]"
)
AWAY = "at 9s: anna does not poll for 9s"
found_by(
    *(timeouts.consumer_member_falls_silent_at_its_poll_timeout, LEAVES_AT_THE_LIMIT, AWAY),
    anna=ANNA + ", max poll interval: 5s",
)
found_by(
    *(timeouts.consumer_member_leaves_at_half_its_poll_interval, LEAVES_AFTER_THE_LIMIT, AWAY),
    anna=ANNA + ", max poll interval: 5s",
)
found_by(mixed.classic_member_joins_at_its_former_epoch, classic.a_classic_member_joins_at_its_epoch, **CLASSIC)
found_by(
    mixed.classic_member_syncs_its_whole_target,
    classic.a_classic_member_syncs_what_it_is_assigned,
    anna=ANNA + SLOW,
    second="carla joins",
)
found_by(
    mixed.classic_member_is_let_in_without_an_id,
    classic.a_classic_member_gets_the_error_of_the_rules,
    "at 20s: carla joins",
)
found_by(
    mixed.classic_member_gets_more_time_to_rejoin,
    steps.a_request_to_rejoin_keeps_its_deadline,
    "at 17s: carla does not poll for 6s\n  - at 19s: ben joins",
    second="carla joins",
)
found_by(
    *(mixed.upgrade_starts_no_sessions, an_upgrade_starts_all_sessions_again, "at 20s: anna leaves"),
    first="carla joins",
    second="anna joins",
)
