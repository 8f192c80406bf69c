"""The transport of a read-committed member, which reports the outputs of transactions that brokers send it."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from regroup.lab.simulation.network.forwarding_transport import ForwardingTransport
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport, TransportCallback
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.exceptions import Malformed
from regroup.protocol.messages.records import FetchResponse
from regroup.protocol.record_batch import read_batch_header, read_records, split_batches


class ReaderTransport(ForwardingTransport):
    """A transport that calls `on_fetched` with partition, offset and label of each output in a Fetch response.

    It is called before the member gets the response, which may have to leave the record out.
    """

    def __init__(self, transport: MemberTransport, on_fetched: Callable[[TopicPartition, int, str], None]) -> None:
        super().__init__(transport)
        self._on_fetched = on_fetched

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        def observe(response: ResponseReceived | RequestFailed) -> None:
            if isinstance(response, ResponseReceived) and isinstance(response.response, FetchResponse):
                for topic in response.response.responses:
                    for each in topic.partitions:
                        partition = TopicPartition(topic.topic, each.partition_index)
                        for offset, label in _outputs_in(each.records or b""):
                            self._on_fetched(partition, offset, label)
            callback(response)

        self._transport.send(request, observe)


def _outputs_in(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield offset and label of each record that was written in a transaction."""
    with suppress(Malformed):  # a batch that is cut off comes whole with the next Fetch
        for batch in split_batches(data):
            header = read_batch_header(batch.data)
            if header.is_transactional and not header.is_control:
                for record in read_records(batch.data):
                    label = (record.value or b"").partition(b"|")[0].decode()
                    yield header.base_offset + record.offset_delta, label
