"""The tables, told once: grain, columns, units. Arrow's and Spark's schemas and docs/tables.md follow from here."""

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

import pyarrow as pa

MEMBER: Final = pa.struct(
    [
        ("member", pa.string()),
        ("instance_id", pa.string()),
        ("waiting", pa.string()),
        ("supports_protocol", pa.bool_()),
        ("share", pa.string()),
    ]
)
TYPES: Final[dict[str, pa.DataType]] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "members": pa.list_(MEMBER),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column: what it is called, what it holds (a word of `TYPES`), and what that means."""

    name: str
    kind: str
    meaning: str

    @property
    def type(self) -> pa.DataType:
        return TYPES[self.kind]


@dataclass(frozen=True, slots=True)
class Table:
    """`grain` says what one row is. Every table begins with `store` and `group`."""

    grain: str
    fields: tuple[Field, ...]

    @property
    def struct(self) -> pa.DataType:
        """A row without `store` and `group`."""
        return pa.struct([(field.name, field.type) for field in self.fields])


def fields(text: str) -> tuple[Field, ...]:
    """A line for each: its name, what it holds, what that means. A meaning may go on, further in."""
    lines = re.sub(r"\n +", " ", dedent(text).strip()).split("\n")
    return tuple(
        Field(name, kind, "".join(meaning)) for name, kind, *meaning in (line.split(None, 2) for line in lines)
    )


def table(grain: str, text: str) -> Table:
    return Table(grain, fields(text))


KEYS: Final = fields(
    """
    store  text  the store: its file's path, or the name of the run that wrote it
    group  text  the consumer group
    """
)

TABLES: Final[dict[str, Table]] = {
    "rebalances": table(
        "one join phase that began, whatever became of it",
        """
        position              long  of the event `rebalance-started`
        reign                 long  of the coordinator that wrote the event; larger after each takeover
        generation            int   that it led to; null if it led to none
        trigger               text  joined, rejoined, left, expelled, replaced, loaded, append-refused or other: what
                                    set it off
        trigger_member        text  the member id that this was about
        reason                text  the same in words
        cause                 text  the request or the deadline behind it, JSON
        initial               flag  the group was Empty before, so the initial delay runs (KIP-134)
        silence_ms            long  how long an expelled member had not been heard when it was expelled; else null
        started_ms            long  epoch ms, the join phase begins
        join_end_ms           long  epoch ms, the join phase ends; null if it never did
        sync_end_ms           long  epoch ms, the assignment is committed; null if it never was
        outcome               text  completed, superseded (by the next), emptied, lost (with the coordinator) or
                                    running
        members_before        int   before the command that set it off
        members_after         int   in the new generation
        joined                int   newcomers since the rebalance before, the trigger included
        left                  int   members that said goodbye, likewise
        expelled              int   members that were expelled, likewise
        replaced              int   static members that came back as new processes, likewise
        leader                text  member id of the new generation's leader
        protocol              text  the assignor
        partitions            int   dealt out in the new assignment
        moved                 int   of these: somebody else held it last
        kept                  int   of these: held on to throughout, by the same member
        given_up_for_nothing  int   of these: given up, and given back to the same member
        new                   int   of these: held by nobody ever before
        """,
    ),
    "ownership": table(
        "one partition in one member's hands, without a break",
        """
        topic           text
        partition       int
        member          text  member id
        identity        text  the instance id where there is one, else the member id: the same across restarts
        generation      int   in which it took the partition
        from_ms         long  epoch ms, its SyncGroup was answered with the partition
        to_ms           long  epoch ms, the coordinator learned that it holds it no more; null while it does
        ended_by        text  revoked, left, expelled, replaced, forgotten or open
        last_heard_ms   long  epoch ms, of an expelled member; else null
        last_commit_ms  long  epoch ms, its last commit for this partition; null if it made none
        """,
    ),
    "gaps": table(
        "one partition of a subscribed topic without an owner, for one reason",
        """
        topic      text
        partition  int
        from_ms    long  epoch ms
        to_ms      long  epoch ms; null while it lasts
        why        text  silence (the owner was not heard and not yet missed), join (the phase that runs), sync
                         (likewise, or dealt out, and its owner has not asked for its share yet), unassigned (Stable,
                         but dealt out to nobody), empty (nobody is in the group)
        trigger    text  what set off the rebalance that runs, or ran last, as in `rebalances`
        """,
    ),
    "member_lives": table(
        "one member id from its admission to its end",
        """
        member              text  member id
        instance_id         text  of a static member; else null
        client_id           text
        client_host         text
        session_timeout_ms  long  ms, as it asked for
        replaces            text  the member id whose place a static member took; else null
        from_ms             long  epoch ms, admitted
        to_ms               long  epoch ms; null while it lives
        end                 text  left, expelled, replaced, forgotten (by a failover) or open
        reason              text  the same in words
        last_heard_ms       long  epoch ms, of an expelled member; else null
        timeout_ms          long  ms, the patience that ran out; else null
        generations         int   in which it was a member
        """,
    ),
    "commits": table(
        "one offset committed for one partition",
        """
        position         long  of the event, within its store
        reign            long  of the coordinator that wrote the event; larger after each takeover
        at_ms            long  epoch ms
        member           text  who committed; null for somebody outside
        topic            text
        partition        int
        offset           long  of the next record to read
        previous_offset  long  committed before; null for the first
        reprocessed      long  records by which the offset went back: they will be processed again
        kind             text  plain, late (Kafka's log took its time) or transaction
        """,
    ),
    "steps": table(
        "one event of a group, except those that change offsets alone; from `leader` on null unless `at_rest`",
        """
        position           long     of the event, within its store
        number             long     of the event, within its group
        reign              long     of the coordinator that wrote the event; larger after each takeover
        at_ms              long     epoch ms
        type               text     of the event
        state_before       text
        state              text
        generation_before  int
        generation         int
        stored_before      texts    of `coordinator-loaded`: members that the log held, with a sum of all about each
        loaded             texts    of `coordinator-loaded`: the same, and reserved ids, as they are now
        stored_generation  int      of `coordinator-loaded`: the generation that the log held
        offsets_were_kept  flag     of `coordinator-loaded`
        at_rest            flag     the command is over with this event
        leader             text     member id
        protocol           text     the assignor
        has_join_phase     flag
        has_appends        flag     Kafka's log holds something back
        members            members  `member`, `instance_id`, what it is `waiting` for (join, sync),
                                    `supports_protocol`, and a sum of its `share`
        instances          texts    instance id and member id of each static member
        reserved_ids       texts    handed out, and not come back yet (KIP-394)
        stored             texts    members and share sums that the log holds
        """,
    ),
    "groups": table(
        "one group as it is in the end",
        """
        position    long  of its last event
        number      long  of its last event, within the group
        state       text
        generation  int
        members     int
        is_whole    flag  false if an event could not be folded: then this is the state before it
        json        text  the whole group, as `regroup replay` shows it
        """,
    ),
    "faults": table(
        "one event that cannot be folded; the rest of its group is left out",
        """
        position  long  of the event, within its store
        sentence  text  what is wrong
        """,
    ),
}
