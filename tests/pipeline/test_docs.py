"""docs/tables.md names every column with its type and its meaning, and no others."""

from pathlib import Path

import pyarrow as pa

from regroup.pipeline.gold.tables import TABLES, fields

DOCS = Path(__file__).parent.parent.parent / "docs" / "tables.md"
HEAD = "| Column | Type | Meaning |\n|---|---|---|\n"


def test_every_table_is_described_with_its_grain_and_each_column_with_its_type_and_meaning() -> None:
    sections = dict(each.split("\n", 1) for each in DOCS.read_text(encoding="utf-8").split("\n## ")[1:])
    for name, table in TABLES.items():
        before, _, columns = sections[name].partition(HEAD)
        assert f"One row is {table.grain}." in before
        lines = [f"| `{field.name}` | {field.kind} | {field.meaning} |" for field in table.fields]
        assert columns.strip().split("\n") == lines, name


def test_a_column_is_a_line_and_its_meaning_may_go_on_in_the_next() -> None:
    told = fields("""
        from_ms  long   epoch ms
        why      texts  silence,
                        join
        topic    text
        """)
    assert [(field.name, field.type, field.meaning) for field in told] == [
        ("from_ms", pa.int64(), "epoch ms"),
        ("why", pa.list_(pa.string()), "silence, join"),
        ("topic", pa.string(), ""),
    ]
