"""Normalises responses: removes what must differ between two brokers, such as member ids and the order of lists."""

import re
from collections.abc import Collection, Mapping

import msgspec

from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.describe import DescribedGroup, ListGroupsResponse
from regroup.protocol.messages.offsets import OffsetFetchResponse

MOVE_SEPARATOR = " of move "
"""The text between the actor and the number of the move in the name of a member id."""

NormalisedFields = dict[str, object]
"""The fields of a response or of a group, by name."""

RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The random end of a member id which has no name."""

PRODUCER_ID_FIELDS = ("producer_id", "ongoing_txn_producer_id")


class CourseNames:
    """Names for what each broker names differently: groups, topic ids, producer ids and member ids.

    Member ids and producer ids are named after the move with which the broker assigned them.
    """

    def __init__(self, group_names: Mapping[str, str], topic_ids: Mapping[str, bytes]) -> None:
        # Names of groups are parts of other texts, and one may begin with another: the longest ones come first.
        self._groups = sorted(group_names.items(), key=lambda pair: -len(pair[0]))
        self._topics = {topic_id: f"id of {name}" for name, topic_id in topic_ids.items()}
        self._names: dict[str, str] = {"": ""}
        self._ids: dict[str, str] = {}
        self._producers: dict[int, str] = {-1: "none"}

    def add_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Add topics, by name, whose ids are replaced by a text with the name."""
        self._topics |= {topic_id: f"id of {name}" for name, topic_id in topic_ids.items()}

    def add(self, member_id: str, name: str) -> None:
        """Replace this member id by `name` from now on, unless it has a name already."""
        if member_id not in self._names:
            self._names[member_id] = name
            self._ids[name] = member_id

    @property
    def member_ids(self) -> Mapping[str, str]:
        """The member ids by their names."""
        return self._ids

    def id_of(self, name: str) -> str:
        """The member id with this name, or else the last one of the same actor; empty if there is none.

        An id may have been replaced since it got the name.
        """
        actor, _, _ = name.partition(MOVE_SEPARATOR)
        of_actor = [each for each in self._ids if each.startswith(actor + MOVE_SEPARATOR)]
        return self._ids[name if name in self._ids else of_actor[-1]] if of_actor else ""

    def normalise_response(self, response: Message | BaseException, move_name: str = "") -> NormalisedFields:
        """The fields of a response with names in place of ids, or, if there is no response, the reason.

        A producer id that is new gets the name of the move.
        """
        if not isinstance(response, Message):
            return {"failure": str(response)}
        fields = msgspec.structs.asdict(response)
        fields.pop("throttle_time_ms", None)
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            fields.pop("error_message")  # its wording is the emulator's own
        if isinstance(response, ListGroupsResponse):
            fields["groups"] = [each for each in response.groups if each.group_id in dict(self._groups)]
        producer_id = fields.get("producer_id")
        if isinstance(producer_id, int):
            self._producers.setdefault(producer_id, f"id{MOVE_SEPARATOR}{move_name}")
        return {name: self._normalise(name, value) for name, value in fields.items()}

    def normalise_group(self, group: DescribedGroup) -> NormalisedFields:
        """The state, protocol type, protocol name and members of a group, with names in place of ids."""
        members = {
            str(self._normalise("member_id", member.member_id)): (
                member.group_instance_id,
                member.member_metadata,
                member.member_assignment,
            )
            for member in group.members
        }
        return {
            "error": ErrorCode.name_of(group.error_code),
            "state": group.group_state,
            "type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": dict(sorted(members.items())),
        }

    def normalise_offsets(self, response: OffsetFetchResponse) -> NormalisedFields:
        """The offsets of each group, by partition, with names in place of ids."""
        return {
            self._text(group.group_id): {
                "error": ErrorCode.name_of(group.error_code),
                **{
                    f"{topic.name}-{each.partition_index}": (
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        ErrorCode.name_of(each.error_code),
                    )
                    for topic in sorted(group.topics, key=lambda topic: topic.name)
                    for each in sorted(topic.partitions, key=lambda each: each.partition_index)
                },
            }
            for group in sorted(response.groups, key=lambda group: group.group_id)
        }

    def _normalise(self, field: str, value: object) -> object:
        if field == "error_code":
            assert isinstance(value, int)
            return ErrorCode.name_of(value)
        if field in PRODUCER_ID_FIELDS and isinstance(value, int):
            return self._producers.get(value, "unknown id")
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes):
            return self._topics.get(value, value)
        if isinstance(value, msgspec.Struct):
            return {name: self._normalise(name, each) for name, each in msgspec.structs.asdict(value).items()}
        if isinstance(value, list):
            return sorted((self._normalise("", each) for each in value), key=repr)
        return value

    def _text(self, value: str) -> str:
        if value in self._names:
            return self._names[value]
        for group_id, name in self._groups:
            value = value.replace(group_id, name)
        return RANDOM_ID.sub("?", value)


def error_codes(response: object) -> Collection[int]:
    """All error codes of a response, those of its parts included."""
    if isinstance(response, list):
        return [code for each in response for code in error_codes(each)]
    if not isinstance(response, msgspec.Struct):
        return []
    fields = msgspec.structs.asdict(response)
    own = [value for name, value in fields.items() if name == "error_code"]
    return [*own, *(code for value in fields.values() if isinstance(value, list) for code in error_codes(value))]
