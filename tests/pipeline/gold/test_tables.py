"""docs/tables.md describes every column of every table, and no others, and names the checked invariants."""

from pathlib import Path

import pyarrow as pa

from regroup.pipeline.gold.builders.invariant_checks import SENTENCES
from regroup.pipeline.gold.tables import TABLES, parse_fields

DOCS = Path(__file__).parents[3] / "docs" / "tables.md"
HEAD = "| Column | Type | Meaning |\n|---|---|---|\n"


def test_the_docs_have_each_table_with_its_grain_and_its_columns() -> None:
    sections = dict(each.split("\n", 1) for each in DOCS.read_text(encoding="utf-8").split("\n## ")[1:])
    for name, table in TABLES.items():
        before, _, columns = sections[name].partition(HEAD)
        assert f"One row is {table.grain}." in before
        lines = [f"| `{field.name}` | {field.kind} | {field.meaning} |" for field in table.fields]
        assert columns.partition("\n\n")[0].strip().split("\n") == lines, name


def test_a_field_is_a_line_and_its_meaning_can_continue_on_the_next() -> None:
    fields = parse_fields("""
        from_ms  long   epoch ms
        reason   texts  session expiry,
                        join
        topic    text
        """)
    assert [(field.name, field.type, field.meaning) for field in fields] == [
        ("from_ms", pa.int64(), "epoch ms"),
        ("reason", pa.list_(pa.string()), "session expiry, join"),
        ("topic", pa.string(), ""),
    ]


def test_the_docs_have_the_sentence_of_each_invariant_in_violations() -> None:
    docs = DOCS.read_text(encoding="utf-8")
    assert [sentence for sentence in SENTENCES if f"\n- {sentence}\n" not in docs] == []
