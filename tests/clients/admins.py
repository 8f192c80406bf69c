"""The administrators of three libraries, behind the calls that they have in common."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka.admin
import confluent_kafka.admin
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from regroup.protocol.consumer.subscription import decode_assignment
from tests.clients.libraries import kafka

Result = TypeVar("Result")
Offsets = Mapping[tuple[str, int], int]
WITHIN_S = 10
NAMES = {"NonEmptyGroupError": "NON_EMPTY_GROUP", "GroupIdNotFoundError": "GROUP_ID_NOT_FOUND"}
"""kafka-python's word for some errors."""


class Described(NamedTuple):
    """A group as its observers see it; a member is known by its client id and has partitions."""

    state: str
    protocol: str
    shares: list[tuple[str, list[tuple[str, int]]]]


class Admin(Protocol):
    """What all of them can do."""

    def groups(self) -> set[str]: ...

    def describe(self, group: str) -> Described: ...

    def committed(self, group: str) -> Offsets: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def close(self) -> None: ...


class ChangingAdmin(Admin, Protocol):
    """What kafka-python and confluent-kafka can do besides. A refusal comes back as the name of Kafka's error."""

    def in_state(self, state: str) -> set[str]: ...

    def alter(self, group: str, offsets: Offsets) -> str: ...

    def delete(self, group: str) -> str: ...


class ConfluentAdmin:
    def __init__(self, address: str) -> None:
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})

    def groups(self) -> set[str]:
        return {each.group_id for each in done(self._admin.list_consumer_groups()).valid}

    def in_state(self, state: str) -> set[str]:
        wanted = {confluent_kafka.ConsumerGroupState[state.upper()]}
        return {each.group_id for each in done(self._admin.list_consumer_groups(states=wanted)).valid}

    def describe(self, group: str) -> Described:
        told = only(self._admin.describe_consumer_groups([group]))
        shares = [
            (each.client_id, sorted((p.topic, p.partition) for p in each.assignment.topic_partitions))
            for each in told.members
        ]
        return Described(told.state.name.title(), told.partition_assignor, sorted(shares))

    def committed(self, group: str) -> Offsets:
        told = only(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(each.topic, each.partition): each.offset for each in told.topic_partitions}

    def alter(self, group: str, offsets: Offsets) -> str:
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            told = only(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].name())
        return next((each.error.name() for each in told.topic_partitions if each.error), "")

    def delete(self, group: str) -> str:
        try:
            only(self._admin.delete_consumer_groups([group]))
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].name())
        return ""

    def add_partitions(self, topic: str, total: int) -> None:
        only(self._admin.create_partitions([confluent_kafka.admin.NewPartitions(topic, total)]))

    def close(self) -> None:
        """librdkafka needs no telling."""


class KafkaPythonAdmin:
    def __init__(self, address: str) -> None:
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=address)

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups()}

    def in_state(self, state: str) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups(states_filter=[state])}

    def describe(self, group: str) -> Described:
        told = self._admin.describe_groups([group])[group]
        shares = [
            (
                each["client_id"],
                sorted(
                    (rows["topic"], n)
                    for rows in each["member_assignment"]["assigned_partitions"]
                    for n in rows["partitions"]
                ),
            )
            for each in told["members"]
        ]
        return Described(str(told["group_state"]), told["protocol_data"], sorted(shares))

    def committed(self, group: str) -> Offsets:
        told = self._admin.list_group_offsets({group: None})[group]
        return {(each.topic, each.partition): at.offset for each, at in told.items()}

    def alter(self, group: str, offsets: Offsets) -> str:
        wanted = {
            kafka.TopicPartition(*partition): kafka.structs.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        told = self._admin.alter_group_offsets(group, wanted)
        return next((error.message for error in told.values() if error.errno), "")

    def delete(self, group: str) -> str:
        told = self._admin.delete_groups([group])[group]
        return "" if told == "OK" else NAMES[told]

    def forget(self, group: str, topic: str, partition: int) -> str:
        """Only this library deletes single offsets."""
        (told,) = self._admin.delete_group_offsets(group, [kafka.TopicPartition(topic, partition)]).values()
        return str(told.message) if told.errno else ""

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: kafka.admin.NewPartitions(total)})

    def close(self) -> None:
        self._admin.close()


class AiokafkaAdmin:
    """It can neither delete groups nor alter their offsets."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _run(self, call: Callable[[Any], Any]) -> Any:
        async def once() -> Any:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=self._address)
            await admin.start()
            try:
                return await call(admin)
            finally:
                await admin.close()

        return asyncio.run(once())

    def groups(self) -> set[str]:
        return {group for group, _ in self._run(lambda admin: admin.list_consumer_groups())}

    def describe(self, group: str) -> Described:
        (answer,) = self._run(lambda admin: admin.describe_consumer_groups([group]))
        _, _, state, _, protocol, members, *_ = answer.groups[0]
        shares = [
            (client_id, sorted((each.topic, each.partition) for each in decode_assignment(assignment).partitions))
            for _, client_id, _, _, assignment in (member[:5] for member in members)
        ]
        return Described(state, protocol, sorted(shares))

    def committed(self, group: str) -> Offsets:
        told = self._run(lambda admin: admin.list_consumer_group_offsets(group))
        return {(each.topic, each.partition): at.offset for each, at in told.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        wanted = {topic: aiokafka.admin.NewPartitions(total)}
        self._run(lambda admin: admin.create_partitions(wanted))

    def close(self) -> None:
        """Each call has closed its own."""


def done(future: "Future[Result]") -> Result:
    return future.result(WITHIN_S)


def only(futures: "Mapping[str, Future[Any]]") -> Any:
    """confluent-kafka promises something for each name that it was asked about."""
    (future,) = futures.values()
    return done(future)


CHANGING_ADMINS: dict[str, Callable[[str], ChangingAdmin]] = {
    "confluent-kafka": ConfluentAdmin,
    "kafka-python": KafkaPythonAdmin,
}
ADMINS: dict[str, Callable[[str], Admin]] = {**CHANGING_ADMINS, "aiokafka": AiokafkaAdmin}
