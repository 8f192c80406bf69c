"""The admin clients of three libraries behind the calls that they have in common."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka.admin
import confluent_kafka.admin
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from regroup.protocol.consumer.subscription import decode_assignment
from tests.clients.with_kafka_python import kafka

Result = TypeVar("Result")
Offsets = Mapping[tuple[str, int], int]
WITHIN_S = 10
NAMES = {"NonEmptyGroupError": "NON_EMPTY_GROUP", "GroupIdNotFoundError": "GROUP_ID_NOT_FOUND"}
"""Kafka's names of errors that kafka-python names by its exceptions."""


class GroupDescription(NamedTuple):
    """The description of a group, with the client id and the partitions of each member."""

    state: str
    protocol: str
    assignments: list[tuple[str, list[tuple[str, int]]]]


class Admin(Protocol):
    """What all admin clients can do."""

    def groups(self) -> set[str]: ...

    def describe(self, group: str) -> GroupDescription: ...

    def committed(self, group: str) -> Offsets: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def close(self) -> None: ...


class ChangingAdmin(Admin, Protocol):
    """What kafka-python and confluent-kafka can do besides. They return the name of Kafka's error, or no text."""

    def in_state(self, state: str) -> set[str]: ...

    def alter(self, group: str, offsets: Offsets) -> str: ...

    def delete(self, group: str) -> str: ...


class ConfluentAdmin:
    def __init__(self, address: str) -> None:
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})

    def groups(self) -> set[str]:
        return {each.group_id for each in result_of(self._admin.list_consumer_groups()).valid}

    def in_state(self, state: str) -> set[str]:
        wanted = {confluent_kafka.ConsumerGroupState[state.upper()]}
        return {each.group_id for each in result_of(self._admin.list_consumer_groups(states=wanted)).valid}

    def describe(self, group: str) -> GroupDescription:
        response = only_result(self._admin.describe_consumer_groups([group]))
        assignments = [
            (each.client_id, sorted((p.topic, p.partition) for p in each.assignment.topic_partitions))
            for each in response.members
        ]
        return GroupDescription(response.state.name.title(), response.partition_assignor, sorted(assignments))

    def committed(self, group: str) -> Offsets:
        response = only_result(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(each.topic, each.partition): each.offset for each in response.topic_partitions}

    def alter(self, group: str, offsets: Offsets) -> str:
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            response = only_result(
                self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
            )
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].name())
        return next((each.error.name() for each in response.topic_partitions if each.error), "")

    def delete(self, group: str) -> str:
        try:
            only_result(self._admin.delete_consumer_groups([group]))
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].name())
        return ""

    def add_partitions(self, topic: str, total: int) -> None:
        only_result(self._admin.create_partitions([confluent_kafka.admin.NewPartitions(topic, total)]))

    def close(self) -> None:
        """An AdminClient of librdkafka has no close()."""


class KafkaPythonAdmin:
    def __init__(self, address: str) -> None:
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=address)

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups()}

    def in_state(self, state: str) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups(states_filter=[state])}

    def describe(self, group: str) -> GroupDescription:
        response = self._admin.describe_groups([group])[group]
        assignments = [
            (
                each["client_id"],
                sorted(
                    (rows["topic"], n)
                    for rows in each["member_assignment"]["assigned_partitions"]
                    for n in rows["partitions"]
                ),
            )
            for each in response["members"]
        ]
        return GroupDescription(str(response["group_state"]), response["protocol_data"], sorted(assignments))

    def committed(self, group: str) -> Offsets:
        response = self._admin.list_group_offsets({group: None})[group]
        return {(each.topic, each.partition): at.offset for each, at in response.items()}

    def alter(self, group: str, offsets: Offsets) -> str:
        wanted = {
            kafka.TopicPartition(*partition): kafka.structs.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        response = self._admin.alter_group_offsets(group, wanted)
        return next((error.message for error in response.values() if error.errno), "")

    def delete(self, group: str) -> str:
        response = self._admin.delete_groups([group])[group]
        return "" if response == "OK" else NAMES[response]

    def delete_offset(self, group: str, topic: str, partition: int) -> str:
        """Delete one offset, which only this library can do."""
        (response,) = self._admin.delete_group_offsets(group, [kafka.TopicPartition(topic, partition)]).values()
        return str(response.message) if response.errno else ""

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: kafka.admin.NewPartitions(total)})

    def close(self) -> None:
        self._admin.close()


class AiokafkaAdmin:
    """The admin client of aiokafka, which can neither delete groups nor alter their offsets."""

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

    def describe(self, group: str) -> GroupDescription:
        (answer,) = self._run(lambda admin: admin.describe_consumer_groups([group]))
        _, _, state, _, protocol, members, *_ = answer.groups[0]
        assignments = [
            (client_id, sorted((each.topic, each.partition) for each in decode_assignment(assignment).partitions))
            for _, client_id, _, _, assignment in (member[:5] for member in members)
        ]
        return GroupDescription(state, protocol, sorted(assignments))

    def committed(self, group: str) -> Offsets:
        response = self._run(lambda admin: admin.list_consumer_group_offsets(group))
        return {(each.topic, each.partition): at.offset for each, at in response.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        wanted = {topic: aiokafka.admin.NewPartitions(total)}
        self._run(lambda admin: admin.create_partitions(wanted))

    def close(self) -> None:
        """Each call has closed its client."""


def result_of(future: "Future[Result]") -> Result:
    return future.result(WITHIN_S)


def only_result(futures: "Mapping[str, Future[Any]]") -> Any:
    """The only result of a call of confluent-kafka, which returns a future for each name."""
    (future,) = futures.values()
    return result_of(future)


CHANGING_ADMINS: dict[str, Callable[[str], ChangingAdmin]] = {
    "confluent-kafka": ConfluentAdmin,
    "kafka-python": KafkaPythonAdmin,
}
ADMINS: dict[str, Callable[[str], Admin]] = {**CHANGING_ADMINS, "aiokafka": AiokafkaAdmin}
