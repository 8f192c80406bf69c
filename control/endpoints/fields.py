"""The types of fields in the inputs of endpoints, with their limits and descriptions."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import MAX_ROWS, MAX_WAIT_S

MAX_NAME: int = 32_767
"""The most characters of a name: as many as a string of Kafka's protocol may have bytes."""

GroupName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, description="The group's name.")]
OptionalGroup: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME, description="Only of this group.")]
MemberName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, description="A member id, an instance id or a client id.")
]
ClientName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, description="A client id, or an instance id or member id of it.")
]
OptionalClient: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME, description="Only of this client id.")]
TopicName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, description="The topic's name.")]
PartitionIndex: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1, description="A partition, from 0 on.")]
BrokerNumber: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1, description="A broker, from 0 on.")]
RowLimit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ROWS, description="The most rows of the answer.")]
FaultNumber: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1, description="The number of a rule, from its answer.")]
WaitTimeoutS: TypeAlias = Annotated[
    float, Meta(ge=0, le=MAX_WAIT_S, description="Seconds after which the wait is given up with 409.")
]


class PartitionOfTopic(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """One partition of a topic."""

    topic: TopicName
    partition: PartitionIndex = 0
