"""docs/tables.md names every column with its meaning."""

from pathlib import Path

from regroup.pipeline.tables import TABLES

DOCS = Path(__file__).parent.parent.parent / "docs" / "tables.md"


def test_every_table_is_described_with_its_grain_columns_and_units() -> None:
    sections = dict(each.split("\n", 1) for each in DOCS.read_text(encoding="utf-8").split("\n## ")[1:])
    for name, table in TABLES.items():
        assert f"One row is {table.grain}." in sections[name]
        for field in table.fields:
            assert f"| `{field.name}` |" in sections[name], f"{name}.{field.name}"
            assert field.meaning in sections[name], f"{name}.{field.name}"
