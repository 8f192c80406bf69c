"""Lists every invariant that a run checks, with its explanation, for `regroup chaos words` and the documentation."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from regroup.coordinator.consumer.invariants import CONSUMER_GROUP_INVARIANTS, CONSUMER_STEP_INVARIANTS
from regroup.coordinator.invariants import GROUP_INVARIANTS, INVARIANTS_BY_EVENT, invariant_sentence
from regroup.coordinator.verification import a_coordinator_epoch_begins_with_a_load
from regroup.lab.checker import coordinator_invariants as c
from regroup.lab.checker.classic.events import CLASSIC_EVENT_SENTENCES
from regroup.lab.checker.consumer.groups import MIGRATION_KEEPS_MEMBERS
from regroup.lab.checker.consumer.invariants import CONSUMER_INVARIANTS
from regroup.lab.checker.consumer.patterns import SEARCHES_IN_TIME, an_epoch_follows_what_patterns_match
from regroup.lab.checker.consumer.steps import STEP_INVARIANTS
from regroup.lab.checker.members import member_invariants as m
from regroup.lab.checker.members.commits import COMMIT_SENTENCES
from regroup.lab.checker.members.membership.assignments import ASSIGNMENT_SENTENCES
from regroup.lab.checker.members.membership.closed_members import CLOSED_SENTENCES
from regroup.lab.checker.members.membership.completed_joins import SYNCS_AFTER_JOINING
from regroup.lab.checker.members.membership.coordinator_searches import KEEPS_ITS_COORDINATOR
from regroup.lab.checker.members.membership.departures import DEPARTURE_SENTENCES
from regroup.lab.checker.members.membership.fenced_commits import FENCED_IN_ITS_GENERATION
from regroup.lab.checker.members.membership.fenced_members import FENCED_SENTENCES
from regroup.lab.checker.members.membership.lost_generations import LOSES_ITS_PARTITIONS
from regroup.lab.checker.members.metadata_refresh import REPEATS_IN_TIME
from regroup.lab.checker.members.own_words import OWN_WORDS_SENTENCES
from regroup.lab.checker.members.planned_members import PLANNED_SENTENCES
from regroup.lab.checker.members.poll_timeouts import POLL_TIMEOUT_SENTENCES
from regroup.lab.checker.members.reconnections import WAITS_TO_RECONNECT
from regroup.lab.checker.members.records.acknowledged_records import FETCH_IS_COMPLETE
from regroup.lab.checker.members.records.fetched_offsets import TAKES_WHAT_IT_GOT
from regroup.lab.checker.members.records.outputs import OUTPUT_SENTENCES
from regroup.lab.checker.members.records.positions import POSITION_SENTENCES
from regroup.lab.checker.members.records.processed_records import COUNTED_AS_IT_WAS
from regroup.lab.checker.members.records.produced_records import PRODUCED_SENTENCES
from regroup.lab.checker.members.records.sent_records import SENT_SENTENCES
from regroup.lab.checker.members.records.unread_partitions import ASKS_FOR_OFFSETS
from regroup.lab.checker.members.retries import RETRY_SENTENCES
from regroup.lab.checker.members.subscription_calls import CALLS_BETWEEN_BATCHES
from regroup.lab.checker.members.subscriptions import SUBSCRIPTION_SENTENCES
from regroup.lab.checker.members.topic_names import TOPIC_NAME_SENTENCES
from regroup.lab.checker.members.transactions import TRANSACTION_SENTENCES
from regroup.lab.checker.offsets import offset_invariants as o
from regroup.lab.checker.offsets.expiry import CHECKS_KEEP_THEIR_INTERVAL, OFFSETS_EXPIRE
from regroup.lab.checker.offsets.fenced_producers import FENCED_IS_REFUSED
from regroup.lab.checker.offsets.late_records import RECORDS_TIME_OUT
from regroup.lab.checker.offsets.prepared_transactions import OUTCOME_IS_CARRIED_OUT
from regroup.lab.checker.offsets.transaction_ends import ENDS_AS_ASKED, TIMES_OUT
from regroup.lab.checker.store import store_invariants as st
from regroup.lab.checker.store.comparison import FULL_REPLAY

MEMBER_SENTENCES: Final = (
    m.NO_TWO_READERS,
    m.NEW_ID_OWNS_NOTHING,
    m.CLOSED_OWNS_NOTHING,
    m.ONLY_OWNED_PARTITIONS,
    m.COMMIT_NOT_AHEAD,
    m.NO_RECORD_SKIPPED,
    COUNTED_AS_IT_WAS,
    *SENT_SENTENCES,
    FETCH_IS_COMPLETE,
    TAKES_WHAT_IT_GOT,
    *POSITION_SENTENCES,
    *POLL_TIMEOUT_SENTENCES,
    *DEPARTURE_SENTENCES,
    SYNCS_AFTER_JOINING,
    KEEPS_ITS_COORDINATOR,
    ASKS_FOR_OFFSETS,
    *CLOSED_SENTENCES,
    *FENCED_SENTENCES,
    FENCED_IN_ITS_GENERATION,
    LOSES_ITS_PARTITIONS,
    *ASSIGNMENT_SENTENCES,
    *COMMIT_SENTENCES,
    *PLANNED_SENTENCES,
    *RETRY_SENTENCES,
    REPEATS_IN_TIME,
    *TOPIC_NAME_SENTENCES,
    WAITS_TO_RECONNECT,
    *OWN_WORDS_SENTENCES,
    *SUBSCRIPTION_SENTENCES,
    CALLS_BETWEEN_BATCHES,
    *PRODUCED_SENTENCES,
)


def invariant_reference() -> dict[str, tuple[tuple[str, str], ...]]:
    """By subject (`Deadlines`, `Members` …), the sentence of each invariant and its explanation, which may be empty."""
    steps = [each for some in INVARIANTS_BY_EVENT.values() for each in some]
    groups = _from_docstrings([*GROUP_INVARIANTS, *steps])
    of_both = dict(groups)
    consumer_steps = _from_docstrings([*CONSUMER_GROUP_INVARIANTS, *CONSUMER_STEP_INVARIANTS])
    consumer_groups: list[Callable[..., Any]] = [
        *CONSUMER_INVARIANTS,
        *STEP_INVARIANTS,
        an_epoch_follows_what_patterns_match,
        st.a_migration_keeps_acknowledged_offsets,
    ]
    folds = (st.the_shadow_group_equals_the_live_group, st.both_folds_agree, st.both_classic_folds_agree)
    return {
        "Requests and responses": _from_docstrings(_exchange_invariants()),
        "Groups of the consumer protocol": (
            *_from_docstrings(consumer_groups),
            *(row for row in consumer_steps if row[0] not in of_both),
            *_unexplained(SEARCHES_IN_TIME, MIGRATION_KEEPS_MEMBERS),
        ),
        "Deadlines": (
            *_from_docstrings([*c.DEADLINE_INVARIANTS, *c.COMMAND_INVARIANTS]),
            *_unexplained(OFFSETS_EXPIRE, CHECKS_KEEP_THEIR_INTERVAL, RECORDS_TIME_OUT),
        ),
        "Coordinators that load": _from_docstrings([*st.LOAD_INVARIANTS, a_coordinator_epoch_begins_with_a_load]),
        "Groups": (*groups, *_unexplained(*CLASSIC_EVENT_SENTENCES)),
        "The store": (*_from_docstrings(folds), *_unexplained(FULL_REPLAY)),
        "Transactions": _unexplained(
            *TRANSACTION_SENTENCES,
            FENCED_IS_REFUSED,
            ENDS_AS_ASKED,
            TIMES_OUT,
            OUTCOME_IS_CARRIED_OUT,
            *OUTPUT_SENTENCES,
        ),
        "Members": _unexplained(*MEMBER_SENTENCES),
    }


def _exchange_invariants() -> list[Callable[..., Any]]:
    """The invariants of requests and responses, whatever the group."""
    return [
        c.a_request_has_at_most_one_response,
        *c.RESPONSE_INVARIANTS,
        *(each for some in c.RESPONSE_INVARIANTS_BY_COMMAND.values() for each in some),
        *c.OFFSET_CHANGE_INVARIANTS,
        o.a_transaction_ends_as_a_whole,
        c.only_dependent_responses_are_held,
        c.an_open_request_gets_its_response,
    ]


def _unexplained(*sentences: str) -> tuple[tuple[str, str], ...]:
    """Rows of invariants whose sentences need no explanation."""
    return tuple((sentence, "") for sentence in sentences)


def _from_docstrings(functions: Iterable[Callable[..., Any]]) -> tuple[tuple[str, str], ...]:
    """For each function, without repetition, its sentence and the rest of its docstring as one line."""
    rows = {}
    for function in dict.fromkeys(functions):
        _, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        rows[invariant_sentence(function)] = " ".join(rest.split())
    return tuple(rows.items())
