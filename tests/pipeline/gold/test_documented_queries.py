"""The queries in docs/tables.md can be run as they stand there."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import read_table

DOCS = Path(__file__).parents[3] / "docs" / "tables.md"


def test_every_query_of_the_docs_can_be_run(spark: SparkSession, built_tables: Path) -> None:
    for name in TABLES:
        read_table(spark, built_tables / "out", name).createOrReplaceTempView(name)
    text = DOCS.read_text(encoding="utf-8")
    queries = [each for each in re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE) if "SELECT" in each]
    counts = [spark.sql(query).count() for query in queries]
    assert len(counts) == 6
    assert counts[0] > 0, "who was last to join each generation"
