"""Reads the recorded exchanges of a store: the rows of its blocks, as the recorder of a server wrote them."""

from collections.abc import Iterator
from pathlib import Path

from regroup.pipeline.source.store_reader import StoreReader
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.blocks import decode_block
from regroup.storage.records import ExchangeBlock
from regroup.storage.sqlite.block_table import damaged_block, decompress_payload


def recorded_rows(reader: StoreReader, path: Path, after: int, through: int) -> Iterator[tuple[int, list[ExchangeRow]]]:
    """Yield the rows of each block with after < number <= through, with the number of the block.

    Blocks that the store has deleted are left out. Raises a StoreError.
    """
    for number, payload in reader.exchange_blocks(after, through):
        try:
            decompressed = decompress_payload(payload)
        except ValueError as error:
            raise damaged_block(path, number, "recorded exchanges", str(error)) from error
        yield number, decode_block(ExchangeBlock(0, 0, 0, decompressed, number))
