"""The definition of every table: what one row is, its columns, their types and units.

Arrow's and Spark's schemas are made from it, and a test compares it with docs/tables.md.
"""

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

import pyarrow as pa

MEMBER_TYPE: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("awaiting", pa.string()),
        ("supports_protocol", pa.bool_()),
        ("assignment_checksum", pa.string()),
    ]
)
ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "members": pa.list_(MEMBER_TYPE),
}


@dataclass(frozen=True, slots=True)
class TableField:
    """A column: its name, its type (a key of `ARROW_TYPES`), and its meaning."""

    name: str
    kind: str
    meaning: str

    @property
    def type(self) -> pa.DataType:
        return ARROW_TYPES[self.kind]


@dataclass(frozen=True, slots=True)
class GoldTable:
    """A table: `grain` says what one row is; `fields` are its columns after `store` and `group`."""

    grain: str
    fields: tuple[TableField, ...]

    @property
    def struct(self) -> pa.DataType:
        """The Arrow type of a row without `store` and `group`."""
        return pa.struct([(field.name, field.type) for field in self.fields])


def parse_fields(text: str) -> tuple[TableField, ...]:
    """One field from each line: name, type and meaning. A meaning can continue on a line that is indented further."""
    lines = [line.split(None, 2) for line in re.sub(r"\n +", " ", dedent(text).strip()).split("\n")]
    return tuple(TableField(name, kind, "".join(meaning)) for name, kind, *meaning in lines)


KEY_FIELDS: Final = parse_fields(
    """
    store  text  the path of the store's file, or the name of the run that wrote it
    group  text  the group id
    """
)

TABLES: Final[dict[str, GoldTable]] = {
    "rebalances": GoldTable(
        "one rebalance of a classic group, completed or not",
        parse_fields(
            """
            position              long  of the event `rebalance-started`
            coordinator_epoch     long  of the coordinator that wrote the event; it grows with each load
            generation_id         int   of the new generation; null if the rebalance led to none
            trigger               text  what started it: joined, rejoined, left, removed, replaced, loaded,
                                        append-failed, downgraded (the group became a classic one) or other
            trigger_member_id     text  the member that joined, left, …; null if the trigger is about no member
            reason                text  the reason of the event
            cause                 text  the request or the deadline that led to the event, JSON
            is_initial            flag  the group was Empty, so the initial rebalance delay applies (KIP-134)
            since_last_seen_ms    long  ms between a removed member's last request and its removal; else null
            started_ms            long  epoch ms, the join phase started
            join_end_ms           long  epoch ms, the join phase ended; null if it did not
            sync_end_ms           long  epoch ms, the assignment was committed; null if it was not
            outcome               text  completed, superseded (by the next rebalance), emptied (all members left),
                                        aborted (by a load or the group's deletion), upgraded (the group became one
                                        of the consumer protocol) or running
            members_before        int   members before the command that started it
            members_after         int   members of the new generation
            joined                int   members that joined since the previous rebalance, the trigger included
            left                  int   members that left in this time
            removed               int   members that were removed in this time
            replaced              int   static members that were replaced in this time
            leader_id             text  member id of the new generation's leader
            protocol_name         text  the selected assignor
            partitions            int   partitions in the new assignment
            moved                 int   of these, partitions that had another owner last
            kept                  int   of these, partitions that their owner kept throughout
            revoked_and_returned  int   of these, partitions that their owner revoked and was assigned again
            new                   int   of these, partitions that never had an owner
            """
        ),
    ),
    "generation_members": GoldTable(
        "one member of one generation, or a new process that took over a static member of it without a rebalance",
        parse_fields(
            """
            position           long   of the event `generation-started`
            coordinator_epoch  long   of the coordinator that wrote the event; it grows with each load
            generation_id      int
            started_ms         long   epoch ms, the join phase ended
            member_id          text
            instance_id        text   of a static member; else null
            is_leader          flag
            missed             flag   a static member that stayed without a JoinGroup in the join phase (KIP-345)
            joined_ms          long   epoch ms, the member's JoinGroup; null if it missed the phase, or none was stored
            synced_ms          long   epoch ms, the member's first SyncGroup; null if it sent none
            assigned_ms        long   epoch ms, the assignment was committed; null if it was not
            assignors          texts  the assignors that the member supports, in the order of its preference
            topics             texts  subscribed topics
            rack               text   the rack in the subscription (KIP-881); else null
            owned              texts  partitions that the member still owned when it joined, such as `orders 3`
            assignment         texts  partitions that it was assigned; null before the assignment was committed
            """
        ),
    ),
    "missing_joiners": GoldTable(
        "one member, or one pending member id, that a join phase waited for and that did not join the new generation",
        parse_fields(
            """
            position       long  of the event `generation-started`
            generation_id  int   of the new generation
            started_ms     long  epoch ms, the join phase ended
            member_id      text  the member; or the id that was given out with MEMBER_ID_REQUIRED and not used until
                                 then (KIP-394), which belongs to no member
            instance_id    text  of a static member; else null
            client_id      text  null for a pending member id that was given out before the store's first event
            until_ms       long  epoch ms, the join phase no longer waited for it
            ended_by       text  left (also since its poll took too long), removed (its session timeout or the rebalance
                                 timeout was over, or a test did it), pending-removed (the id expired, or left), or
                                 pending (the id was still pending when the rebalance timeout was over)
            """
        ),
    ),
    "reconciliations": GoldTable(
        "one group epoch of a group of the consumer protocol, from its bump until every member has reached it",
        parse_fields(
            """
            position              long  of the event `group-epoch-bumped`
            coordinator_epoch     long  of the coordinator that wrote the event; it grows with each load
            group_epoch           int
            trigger               text  what caused it: joined, subscribed (a member changed its subscription or its
                                        assignor), left, removed, replaced or topics (subscribed topics changed)
            trigger_member_id     text  the member that joined, left, …; null if the trigger is about no member
            reason                text  the reason of the event
            cause                 text  the request or the deadline that led to the event, JSON
            since_last_seen_ms    long  ms between a removed member's last request and its removal; else null
            bumped_ms             long  epoch ms, the group epoch grew: the heartbeat or the removal that caused it
            target_ms             long  epoch ms, the target of this epoch was computed; null if it was not
            ended_ms              long  epoch ms, every member had reached the target, or it ended otherwise; null if it
                                        did not end
            outcome               text  completed, superseded (by the next group epoch), emptied (all members left),
                                        ended (the group became a classic one, or was deleted) or running
            assignor              text  that computed the target; null if none did
            members_before        int   members before the command that caused it
            members_after         int   members when it ended
            classic_members       int   members of the classic protocol when it began
            joined                int   members that joined since the previous bump, the trigger included
            left                  int   members that left in this time
            removed               int   members that were removed in this time
            replaced              int   static members that returned or were replaced in this time
            steps                 int   steps of members towards their targets
            revoking_members      int   members that were asked to give up partitions
            revoked               int   partitions that they were asked to give up
            partitions            int   partitions that had an owner when it ended
            moved                 int   partitions that got another owner than their last one
            kept                  int   of `partitions`, those that their owner had kept throughout
            revoked_and_returned  int   partitions that their last owner got again
            new                   int   partitions that got their first owner
            ownerless_partitions  int   partitions that had no owner for some of the time, and had had one before
            ownerless_ms          long  ms in which they had none, their sum; null if it did not end
            longest_ownerless_ms  long  ms, the longest of them; null if it did not end
            """
        ),
    ),
    "target_members": GoldTable(
        "one member of one target assignment of a group of the consumer protocol, or a new process of a static member "
        "of it",
        parse_fields(
            """
            position           long   of the event `target-assigned`, or of `group-upgraded`
            coordinator_epoch  long   of the coordinator that wrote the event; it grows with each load
            assignment_epoch   int    the group epoch for which the target was computed
            target_ms          long   epoch ms, it was computed
            assignor           text   null after an upgrade: the target is what the members had
            member_id          text
            instance_id        text   of a static member; else null
            is_classic         flag   the member uses the classic protocol
            epoch_before       int    the member's epoch then; 0 before its first one, -2 while it was away
            target             texts  its share of the target, such as `orders 3`
            asked_ms           long   epoch ms, the response that asked it to give up partitions; null if none did
            revoked            texts  the partitions that it was last asked to give up; null if it was not asked
            reached_ms         long   epoch ms, it reached the epoch: it had given them up; null if it did not
            complete_ms        long   epoch ms, it had its whole share; null if it had not
            ended_ms           long   epoch ms, of the event that ended its part; null if none did
            outcome            text   completed (whatever ended it), superseded (by the next target), left, removed,
                                      replaced, ended (the group became a classic one, or was deleted) or open
            """
        ),
    ),
    "ownership": GoldTable(
        "one period in which one member owned one partition",
        parse_fields(
            """
            topic           text  in a group of the consumer protocol a deleted topic and a new one of its name have
                                  periods of their own, which may overlap
            partition       int
            member_id       text
            identity        text  the instance id of a static member, else the member id: the same across restarts
            protocol        text  classic or consumer: of the group when the period began
            generation_id   int   the generation in which the member was assigned the partition; of the consumer
                                  protocol, the assignment epoch at which it got it, or 0 for a static member's return
            from_ms         long  epoch ms, the SyncGroup response with the partition, or the heartbeat's; of some
                                  static members their next JoinGroup (see above)
            to_ms           long  epoch ms, the event that ended it; null if none did
            ended_by        text  revoked, left, removed, replaced, away (a static member has left and will return),
                                  lost (by a failover, a failed append or the group's deletion) or open
            last_seen_ms    long  epoch ms, the last request of a removed member; else null
            last_commit_ms  long  epoch ms, the owner's last commit for the partition; null if there was none
            """
        ),
    ),
    "gaps": GoldTable(
        "one period in which one partition of a subscribed topic had no owner, for one reason",
        parse_fields(
            """
            topic      text
            partition  int
            protocol     text  classic or consumer: of the group
            from_ms      long  epoch ms
            to_ms        long  epoch ms; null if it did not end
            reason       text  session-expiry (from the last request of an owner to its removal), join (the join phase
                               runs), sync (the sync phase runs, or the partition is assigned and its owner has not
                               sent SyncGroup yet), assigning (the group epoch is newer than the target), reconciling
                               (the partition is in the target, and its owner has not got it), away (it is kept for a
                               static member that will return), unassigned (the assignment or the target lacks the
                               partition) or empty (the group has no members)
            trigger      text  trigger of the rebalance or reconciliation that runs, or ran last, as in `rebalances` and
                               `reconciliations`
            group_epoch  int   the group epoch when the period began; null for a classic group
            owner_id     text  of session-expiry: the member that was removed, whose period in `ownership` includes
                               this one; else null
            was_owned    flag  whether the partition had had an owner before, in the events that the store has
            """
        ),
    ),
    "member_lifetimes": GoldTable(
        "one member id, from its first join to its end",
        parse_fields(
            """
            member_id           text
            instance_id         text  of a static member; else null
            client_id           text
            client_host         text
            protocol            text  classic or consumer: how the member joined; it may be in a group of the other kind
            session_timeout_ms  long  ms, as the member requested; of the consumer protocol, the broker's
            replaced_member_id  text  the member id that a static member replaced; else null
            from_ms             long  epoch ms, it joined
            to_ms               long  epoch ms, it ended; null if it did not
            ended_by            text  left, removed, replaced, lost (by a failover or a failed append) or open
            reason              text  the reason of the event that ended it
            last_seen_ms        long  epoch ms, the last request of a removed member; else null
            timeout_ms          long  ms, the timeout that expired; null if the member was not removed
            generations         int   number of generations that the member was in, or of epochs that it reached
            """
        ),
    ),
    "commits": GoldTable(
        "one offset committed for one partition",
        parse_fields(
            """
            position           long  of the event, within its store
            coordinator_epoch  long  of the coordinator that wrote the event; it grows with each load
            at_ms              long  epoch ms
            member_id          text  the member that committed; null if no member did, or it was not stored
            topic              text
            partition          int
            offset             long  of the next record to read
            previous_offset    long  the offset committed before; null for the first
            reprocessed        long  records by which the offset went back, which will be processed again
            kind               text  immediate, delayed (the emulated Kafka log committed it later) or transactional
            """
        ),
    ),
    "lag": GoldTable(
        "one commit for a partition, or one observed change of its log, once both are known",
        parse_fields(
            """
            topic             text
            partition         int
            at_ms             long  epoch ms
            position          long  of the commit's event; null for log-end, which comes before commits of the same ms
            changed           text  commit or log-end
            committed_offset  long  the group's committed offset from then on
            log_end_offset    long  where the log ends, as the last response before said; at least the committed offset
            empty_before      long  no offset below has a record, since the process of the brokers began there; else 0
            lag               long  records, and markers of transactions, that the group has yet to read
            """
        ),
    ),
    "refused_requests": GoldTable(
        "one error code in the response to one recorded request; `group` is null if the request names no group",
        parse_fields(
            """
            at_ms           long  epoch ms, the request came
            answered_ms     long  epoch ms, its response was sent
            connection      text  broker, connection and epoch of the process, such as `0-3@7`
            correlation_id  int
            client_id       text
            api             text  Kafka's name, such as JoinGroup
            member_id       text  in the request or the response; null if there is none, or several
            instance_id     text  in the request; else null
            generation_id   int   in the request, or the member epoch; else null
            error           text  Kafka's name of the error code
            error_message   text  what the response says beside the code, where it is first; else null
            parts           int   how many times the response has the code: for each partition, topic or member
            requests        long  1, or the number of equal heartbeats that got this response one after the other
            fault           text  what a fault rule did to the request; else null
            """
        ),
    ),
    "heartbeats": GoldTable(
        "one recorded heartbeat of a member, or several that came within half a second",
        parse_fields(
            """
            at_ms               long  epoch ms, it came; the last one of several
            member_id           text
            instance_id         text  of a static member; else null
            client_id           text
            protocol            text  classic (Heartbeat) or consumer (ConsumerGroupHeartbeat)
            generation_id       int   in the request, or the member epoch
            error               text  Kafka's name of the error code, NONE without an error; null without a response
            requests            long  how many heartbeats the row stands for
            fault               text  what a fault rule did to it; else null
            session_timeout_ms  long  ms, the session timeout that ran for the member; null if it was refused at
                                       once
            since_last_seen_ms  long  ms since that timeout had started; null if that is not known, or it did not run
            ended_by            text  left, removed or replaced, if the member had ended before; else null
            after_end_ms        long  ms since then: how much too late it came
            """
        ),
    ),
    "transitions": GoldTable(
        "one event of a group, except those that change offsets only; the columns from `leader_id` on are null unless "
        "`ends_command`, and in groups of the consumer protocol",
        parse_fields(
            """
            position               long     of the event, within its store
            event_number           long     of the event, within its group
            coordinator_epoch      long     of the coordinator that wrote the event; it grows with each load
            at_ms                  long     epoch ms
            type                   text     event type
            protocol_before        text     classic or consumer
            protocol               text
            state_before           text
            state                  text
            generation_id_before   int      0 for a group of the consumer protocol
            generation_id          int
            group_epoch_before     int      null for a classic group
            group_epoch            int
            assignment_epoch_before  int    the epoch of the target; null for a classic group
            assignment_epoch       int
            stored_members_before  texts    of `coordinator-loaded`: each member that the log held, with a checksum of
                                            its data
            loaded_members         texts    of `coordinator-loaded`: each member after it, likewise, and the pending
                                            join members
            stored_generation_id   int      of `coordinator-loaded`: the generation that the log held
            offsets_unchanged      flag     of `coordinator-loaded`: the committed offsets are the same before and after
            ends_command           flag     the event is the last one of its command
            leader_id              text
            protocol_name          text     the selected assignor
            has_join_phase         flag
            has_pending_appends    flag     records were written to the emulated Kafka log, and not committed yet
            members                members  `member_id`, `instance_id`, the response that it is `awaiting` (join, sync),
                                            `supports_protocol`, and its `assignment_checksum`
            static_members         texts    instance id and member id of each static member
            pending_join_members   texts    member ids returned with MEMBER_ID_REQUIRED and not used yet (KIP-394)
            stored_members         texts    each member that the log holds, with a checksum of its assignment
            """
        ),
    ),
    "groups": GoldTable(
        "one group after its last event",
        parse_fields(
            """
            position          long  of its last event
            event_number      long  of its last event, within the group
            protocol          text  classic or consumer
            state             text
            generation_id     int   0 for a group of the consumer protocol
            group_epoch       int   null for a classic group
            assignment_epoch  int   the epoch of the target; null for a classic group
            members           int   number of members
            is_complete       flag  false if an event could not be folded: then this is the group before that event
            json              text  the whole group, as `regroup replay` prints it
            """
        ),
    ),
    "fold_errors": GoldTable(
        "one event that cannot be folded; later events of its group are left out",
        parse_fields(
            """
            position  long  of the event, within its store
            sentence  text  the error
            """
        ),
    ),
}
