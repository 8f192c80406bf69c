"""Cases of bugs in groups of the consumer protocol: a small run in which the lab finds each of them."""

from regroup.lab.checker import consumer_invariants as i
from regroup.lab.checker.member_invariants import ONLY_OWNED_PARTITIONS
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.planted_bugs import consumer_groups
from regroup.lab.simulation.recovery import RECOVERY_INVARIANT
from regroup.lab.simulation.run import play
from tests.lab.planted_bugs.bug_cases import bug_case

RUN = """\
scenario: Two members of the consumer protocol
topics: {{orders: 4}}
settings: {{group.consumer.session.timeout.ms: 10000, group.consumer.min.session.timeout.ms: 10000}}
members: {{anna: {{protocol: consumer, session timeout: 10s}}, ben: {{protocol: consumer}}}}
steps:
  - at 0s: anna joins
  - at 8s: ben joins
  - {step}
faults end at: 50s
recovers within: 20s
{workload}
"""


def finds(sentence: str, step: str = "at 40s: ben leaves", workload: str = "") -> bool:
    """Whether a run violates the invariant of this sentence."""
    outcome = play(read_plan(RUN.format(step=step, workload=workload)))
    return sentence in outcome.verdict.sentences


def sentence_of(function: object) -> str:
    return " ".join((function.__doc__ or "").split("\n\n")[0].split())


@bug_case(consumer_groups.partition_is_given_before_its_release, expected=False, with_bug=True)
def a_member_joins() -> bool:
    return finds(sentence_of(i.a_partition_is_free_before_it_is_assigned))


@bug_case(consumer_groups.heartbeat_tells_the_previous_epoch, expected=False, with_bug=True)
def a_member_changes_nothing() -> bool:
    return finds(sentence_of(i.epochs_of_a_member_never_run_back))


@bug_case(consumer_groups.member_at_the_target_keeps_the_rest, expected=False, with_bug=True)
def a_member_is_to_give_partitions_up() -> bool:
    return finds(sentence_of(i.a_member_at_the_target_has_nothing_outside_it))


@bug_case(consumer_groups.removed_member_goes_on, expected=False, with_bug=True)
def a_member_pauses() -> bool:
    return finds(sentence_of(i.only_a_present_epoch_is_accepted), "at 20s: ben pauses for 20s")


@bug_case(consumer_groups.refused_heartbeat_bumps_the_epoch, expected=False, with_bug=True)
def a_member_that_paused_is_refused() -> bool:
    return finds(sentence_of(i.a_fenced_request_changes_nothing), "at 20s: ben pauses for 20s")


@bug_case(consumer_groups.any_epoch_commits, expected=False, with_bug=True)
def a_zombie_commits() -> bool:
    step, workload = "at 20s: anna becomes a zombie", "workload: {records per s: 1}"
    return finds(sentence_of(i.a_commit_names_a_present_epoch), step, workload)


@bug_case(consumer_groups.target_is_computed_for_joins_alone, expected=False, with_bug=True)
def a_member_leaves() -> bool:
    return finds(RECOVERY_INVARIANT)


@bug_case(consumer_groups.member_goes_on_with_what_it_gave_up, expected=False, with_bug=True)
def a_member_reads() -> bool:
    return finds(ONLY_OWNED_PARTITIONS, workload="workload: {records per s: 1}")
