"""The tables, told once: grain, columns, units. Arrow's and Spark's schemas and docs/tables.md follow from here."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

LONG, INT, TEXT, FLAG = pa.int64(), pa.int32(), pa.string(), pa.bool_()
TEXTS = pa.list_(pa.string())

MEMBERS = pa.list_(
    pa.struct(
        [
            ("member", TEXT),
            ("instance_id", TEXT),
            ("waiting", TEXT),
            ("supports_protocol", FLAG),
            ("share", TEXT),
        ]
    )
)


@dataclass(frozen=True, slots=True)
class Field:
    """A column: what it is called, what it holds, and what that means."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """`grain` says what one row is. Every table begins with `store` and `group`."""

    grain: str
    fields: tuple[Field, ...]

    @property
    def struct(self) -> pa.DataType:
        """A row without `store` and `group`."""
        return pa.struct([(field.name, field.type) for field in self.fields])


POSITION = Field("position", LONG, "of the event, within its store")
REIGN = Field("reign", LONG, "of the coordinator that wrote the event; larger after each takeover")

TABLES: Final[dict[str, Table]] = {
    "rebalances": Table(
        "one join phase that began, whatever became of it",
        (
            Field("position", LONG, "of the event `rebalance-started`"),
            REIGN,
            Field("generation", INT, "that it led to; null if it led to none"),
            Field(
                "trigger",
                TEXT,
                "joined, rejoined, left, expelled, replaced, loaded, append-refused or other: what set it off",
            ),
            Field("trigger_member", TEXT, "the member id that this was about"),
            Field("reason", TEXT, "the same in words"),
            Field("cause", TEXT, "the request or the deadline behind it, JSON"),
            Field("initial", FLAG, "the group was Empty before, so the initial delay runs (KIP-134)"),
            Field("silence_ms", LONG, "how long an expelled member had not been heard when it was expelled; else null"),
            Field("started_ms", LONG, "epoch ms, the join phase begins"),
            Field("join_end_ms", LONG, "epoch ms, the join phase ends; null if it never did"),
            Field("sync_end_ms", LONG, "epoch ms, the assignment is committed; null if it never was"),
            Field(
                "outcome", TEXT, "completed, superseded (by the next), emptied, lost (with the coordinator) or running"
            ),
            Field("members_before", INT, "before the command that set it off"),
            Field("members_after", INT, "in the new generation"),
            Field("joined", INT, "newcomers since the rebalance before, the trigger included"),
            Field("left", INT, "members that said goodbye, likewise"),
            Field("expelled", INT, "members that were expelled, likewise"),
            Field("replaced", INT, "static members that came back as new processes, likewise"),
            Field("leader", TEXT, "member id of the new generation's leader"),
            Field("protocol", TEXT, "the assignor"),
            Field("partitions", INT, "dealt out in the new assignment"),
            Field("moved", INT, "of these: somebody else held it last"),
            Field("kept", INT, "of these: held on to throughout, by the same member"),
            Field("given_up_for_nothing", INT, "of these: given up, and given back to the same member"),
            Field("new", INT, "of these: held by nobody ever before"),
        ),
    ),
    "ownership": Table(
        "one partition in one member's hands, without a break",
        (
            Field("topic", TEXT, ""),
            Field("partition", INT, ""),
            Field("member", TEXT, "member id"),
            Field("identity", TEXT, "the instance id where there is one, else the member id: the same across restarts"),
            Field("generation", INT, "in which it took the partition"),
            Field("from_ms", LONG, "epoch ms, its SyncGroup was answered with the partition"),
            Field("to_ms", LONG, "epoch ms, the coordinator learned that it holds it no more; null while it does"),
            Field("ended_by", TEXT, "revoked, left, expelled, replaced, forgotten or open"),
            Field("last_heard_ms", LONG, "epoch ms, of an expelled member; else null"),
            Field("last_commit_ms", LONG, "epoch ms, its last commit for this partition; null if it made none"),
        ),
    ),
    "gaps": Table(
        "one partition of a subscribed topic without an owner, for one reason",
        (
            Field("topic", TEXT, ""),
            Field("partition", INT, ""),
            Field("from_ms", LONG, "epoch ms"),
            Field("to_ms", LONG, "epoch ms; null while it lasts"),
            Field(
                "why",
                TEXT,
                "silence (the owner was not heard and not yet missed), join, sync (the phase that runs), unassigned "
                "(Stable, but nobody has it), empty (nobody is in the group)",
            ),
            Field("trigger", TEXT, "what set off the rebalance that runs, or ran last, as in `rebalances`"),
        ),
    ),
    "member_lives": Table(
        "one member id from its admission to its end",
        (
            Field("member", TEXT, "member id"),
            Field("instance_id", TEXT, "of a static member; else null"),
            Field("client_id", TEXT, ""),
            Field("client_host", TEXT, ""),
            Field("session_timeout_ms", LONG, "ms, as it asked for"),
            Field("replaces", TEXT, "the member id whose place a static member took; else null"),
            Field("from_ms", LONG, "epoch ms, admitted"),
            Field("to_ms", LONG, "epoch ms; null while it lives"),
            Field("end", TEXT, "left, expelled, replaced, forgotten (by a failover) or open"),
            Field("reason", TEXT, "the same in words"),
            Field("last_heard_ms", LONG, "epoch ms, of an expelled member; else null"),
            Field("timeout_ms", LONG, "ms, the patience that ran out; else null"),
            Field("generations", INT, "in which it was a member"),
        ),
    ),
    "commits": Table(
        "one offset committed for one partition",
        (
            POSITION,
            REIGN,
            Field("at_ms", LONG, "epoch ms"),
            Field("member", TEXT, "who committed; null for somebody outside"),
            Field("topic", TEXT, ""),
            Field("partition", INT, ""),
            Field("offset", LONG, "of the next record to read"),
            Field("previous_offset", LONG, "committed before; null for the first"),
            Field("reprocessed", LONG, "records by which the offset went back: they will be processed again"),
            Field("kind", TEXT, "plain, late (Kafka's log took its time) or transaction"),
        ),
    ),
    "steps": Table(
        "one event of a group, except those that change offsets alone; from `leader` on null unless `at_rest`",
        (
            POSITION,
            Field("number", LONG, "of the event, within its group"),
            REIGN,
            Field("at_ms", LONG, "epoch ms"),
            Field("type", TEXT, "of the event"),
            Field("state_before", TEXT, ""),
            Field("state", TEXT, ""),
            Field("generation_before", INT, ""),
            Field("generation", INT, ""),
            Field(
                "stored_before",
                TEXTS,
                "of `coordinator-loaded`: members that the log held, with a sum of all about each",
            ),
            Field("loaded", TEXTS, "of `coordinator-loaded`: the same, and reserved ids, as they are now"),
            Field("stored_generation", INT, "of `coordinator-loaded`: the generation that the log held"),
            Field("offsets_were_kept", FLAG, "of `coordinator-loaded`"),
            Field("at_rest", FLAG, "the command is over with this event"),
            Field("leader", TEXT, "member id"),
            Field("protocol", TEXT, "the assignor"),
            Field("has_join_phase", FLAG, ""),
            Field("has_appends", FLAG, "Kafka's log holds something back"),
            Field("members", MEMBERS, "with what each waits for (join, sync), and a sum of its share's bytes"),
            Field("instances", TEXTS, "instance id and member id of each static member"),
            Field("reserved_ids", TEXTS, "handed out, and not come back yet (KIP-394)"),
            Field("stored", TEXTS, "members and share sums that the log holds"),
        ),
    ),
    "groups": Table(
        "one group as it is in the end",
        (
            Field("position", LONG, "of its last event"),
            Field("number", LONG, "of its last event, within the group"),
            Field("state", TEXT, ""),
            Field("generation", INT, ""),
            Field("members", INT, ""),
            Field("is_whole", FLAG, "false if an event could not be folded: then this is the state before it"),
            Field("json", TEXT, "the whole group, as `regroup replay` shows it"),
        ),
    ),
    "faults": Table(
        "one event that cannot be folded; the rest of its group is left out",
        (POSITION, Field("sentence", TEXT, "what is wrong")),
    ),
}

KEYS: Final = (
    Field("store", TEXT, "the store: its file's path, or the name of the run that wrote it"),
    Field("group", TEXT, "the consumer group"),
)
