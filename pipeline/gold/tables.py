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
    lines = re.sub(r"\n +", " ", dedent(text).strip()).split("\n")
    return tuple(
        TableField(name, kind, "".join(meaning)) for name, kind, *meaning in (line.split(None, 2) for line in lines)
    )


KEY_FIELDS: Final = parse_fields(
    """
    store  text  the path of the store's file, or the name of the run that wrote it
    group  text  the group id
    """
)

TABLES: Final[dict[str, GoldTable]] = {
    "rebalances": GoldTable(
        "one rebalance, completed or not",
        parse_fields(
            """
            position              long  of the event `rebalance-started`
            coordinator_epoch     long  of the coordinator that wrote the event; it grows with each load
            generation_id         int   of the new generation; null if the rebalance led to none
            trigger               text  what started it: joined, rejoined, left, removed, replaced, loaded,
                                        append-failed or other
            trigger_member_id     text  the member that joined, left, …; null if the trigger is about no member
            reason                text  the reason of the event
            cause                 text  the request or the deadline that led to the event, JSON
            is_initial            flag  the group was Empty, so the initial rebalance delay applies (KIP-134)
            since_last_seen_ms    long  ms between a removed member's last request and its removal; null for other
                                        triggers
            started_ms            long  epoch ms, the join phase started
            join_end_ms           long  epoch ms, the join phase ended; null if it did not
            sync_end_ms           long  epoch ms, the assignment was committed; null if it was not
            outcome               text  completed, superseded (by the next rebalance), emptied (all members left),
                                        aborted (by a load or the group's deletion) or running
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
            joined_ms          long   epoch ms, the member's last JoinGroup; null if it was not stored
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
    "ownership": GoldTable(
        "one period in which one member owned one partition",
        parse_fields(
            """
            topic           text
            partition       int
            member_id       text
            identity        text  the instance id of a static member, else the member id: the same across restarts
            generation_id   int   the generation in which the member was assigned the partition
            from_ms         long  epoch ms, the SyncGroup response with the partition
            to_ms           long  epoch ms, the event that ended it; null if none did
            ended_by        text  revoked, left, removed, replaced, lost (by a failover or a failed append) or open
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
            from_ms    long  epoch ms
            to_ms      long  epoch ms; null if it did not end
            reason     text  session-expiry (from the last request of an owner to its removal), join (the join phase
                             runs), sync (the sync phase runs, or the partition is assigned and its owner has not sent
                             SyncGroup yet), unassigned (the group is Stable, and the assignment lacks the partition)
                             or empty (the group has no members)
            trigger    text  trigger of the rebalance that runs, or ran last, as in `rebalances`
            owner_id   text  of session-expiry: the member that was removed, whose period in `ownership` includes this
                             one; else null
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
            session_timeout_ms  long  ms, as the member requested
            replaced_member_id  text  the member id that a static member replaced; else null
            from_ms             long  epoch ms, it joined
            to_ms               long  epoch ms, it ended; null if it did not
            ended_by            text  left, removed, replaced, lost (by a failover or a failed append) or open
            reason              text  the reason of the event that ended it
            last_seen_ms        long  epoch ms, the last request of a removed member; else null
            timeout_ms          long  ms, the timeout that expired; null if the member was not removed
            generations         int   number of generations that the member was in
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
    "transitions": GoldTable(
        "one event of a group, except those that change offsets only; the columns from `leader_id` on are null unless "
        "`ends_command`",
        parse_fields(
            """
            position               long     of the event, within its store
            event_number           long     of the event, within its group
            coordinator_epoch      long     of the coordinator that wrote the event; it grows with each load
            at_ms                  long     epoch ms
            type                   text     event type
            state_before           text
            state                  text
            generation_id_before   int
            generation_id          int
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
            position       long  of its last event
            event_number   long  of its last event, within the group
            state          text
            generation_id  int
            members        int   number of members
            is_complete    flag  false if an event could not be folded: then this is the group before that event
            json           text  the whole group, as `regroup replay` prints it
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
