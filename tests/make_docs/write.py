"""Writes what commands print, tables from the code, and pictures into the README and the documents: `make docs`.

python -m tests.make_docs.write [FILE …]
"""

import sys
from pathlib import Path

from tests.make_docs.blocks import DOCUMENTS, blocks_of, made_parts, replace_parts
from tests.make_docs.pictures import PICTURES
from tests.make_docs.tables import MAKERS
from tests.make_docs.transcripts import normalised, shell


def written(text: str) -> str:
    """The document with fresh contents. A block whose output differs in times and ids alone stays as it is."""
    parts = [(start, before, f"\n{MAKERS[name]()}\n") for name, before, start in made_parts(text)]
    with shell() as typed:
        for block in blocks_of(text):
            now, as_shape = typed.transcript(block), block.options.is_shape
            if normalised(now, as_shape=as_shape) != normalised(block.content, as_shape=as_shape):
                parts.append((block.start, block.content, now))
    return replace_parts(text, parts)


def main(paths: list[str]) -> None:
    for path in map(Path, paths) if paths else DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        now = written(before)
        if now != before:
            path.write_text(now, encoding="utf-8")
            print(f"{path.name} was changed")
    for path, draw in () if paths else PICTURES.items():
        path.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
