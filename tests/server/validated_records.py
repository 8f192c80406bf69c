"""The validation of records without its pauses."""

from regroup.server.log.record_validation import LegacyAllowance, ValidatedBatch, validate_records


def validated(
    records: bytes, *, produce_version: int, max_bytes: int, allowance: LegacyAllowance | None = None
) -> list[ValidatedBatch]:
    """The batches of one request; raises RequestError."""
    allowance = allowance or LegacyAllowance()
    validation = validate_records(records, allowance, produce_version=produce_version, max_bytes=max_bytes)
    while True:
        try:
            next(validation)
        except StopIteration as end:
            batches: list[ValidatedBatch] = end.value
            return batches
