"""The records in the response to a Fetch."""

from collections.abc import Iterator

from regroup.protocol.record_batch import BatchRecord, read_records, split_batches


def read_all_records(records: bytes) -> Iterator[tuple[int, BatchRecord]]:
    """The offset and the record for every record of a Records field with uncompressed batches. Raises Malformed."""
    for batch in split_batches(records):
        for record in read_records(batch.data):
            yield batch.base_offset + record.offset_delta, record
