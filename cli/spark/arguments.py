"""The arguments of the commands that run on Spark: `pipeline`, `campaign` and `report`."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Final

from regroup.cli.terminal.arguments import whole_number

PIPELINE_HELP = """\
From the stores of many runs, or of a long one, to tables: on Spark, on this machine or on a cluster.

regroup pipeline ingest 'runs/*.db' out                events to Parquet, each once; again for new ones
regroup pipeline tables out                            rebalances, ownership, gaps … below out/tables
regroup pipeline show out gaps --limit 20              look at a table
regroup pipeline replay out                            every group's final state, as `regroup replay` shows it
regroup pipeline clean out                             remove older versions of the tables
regroup report out                                     one page to look at
"""
CAMPAIGN_HELP = """\
Thousands of simulations as Spark tasks: the cost of a setting, and which setting would have been right.

regroup campaign pipeline/plans/static-or-dynamic.yaml out       simulate; an interrupted campaign goes on
regroup pipeline tables out && regroup report out                 tables, and a page to look at
regroup campaign PLAN --only RUN --store run.db                   repeat one run, with a store of its own

A campaign of a thousand runs takes minutes. docs/pipeline.md lists what a plan may say.
"""
REPORT_HELP = """\
One page about many runs: how long partitions had no owner and why, how long rebalances took, and the worst ten.

regroup report out                                     writes out/report.html, and its numbers as Parquet beside it
"""
FOLDER_HELP: Final = "a folder, or an address such as s3a://bucket/out (docs/pipeline.md)"
SPARK_PACKAGES: Final = {
    "packages": ("pyspark", "pyarrow", "pandas"),
    "install": "pip install pyspark pyarrow 'pandas<3' numpy protobuf adbc-driver-sqlite adbc-driver-manager",
}


def add_pipeline_arguments(parser: ArgumentParser) -> None:
    parser.description = PIPELINE_HELP
    parser.set_defaults(**SPARK_PACKAGES)
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    ingest = steps.add_parser("ingest", help="read the events of stores, and write them as Parquet")
    ingest.add_argument("stores", metavar="STORES", help="files or patterns, with commas between them: 'runs/*.db'")
    ingest.add_argument("folder", metavar="DIR", help=FOLDER_HELP)
    ingest.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="for a damaged or foreign store: end, or name it and leave it out (default: fail)",
    )
    tables = steps.add_parser("tables", help="build every table from the events")
    tables.add_argument("--full", action="store_true", help="fold all events again, not only the new ones")
    show = steps.add_parser("show", help="show a table")
    replay = steps.add_parser("replay", help="every group's final state, as JSON")
    clean = steps.add_parser("clean", help="remove the versions of the tables that are older than the current one")
    for step in (tables, show, replay, clean):
        step.add_argument("folder", metavar="DIR", help=FOLDER_HELP)
    show.add_argument("table", metavar="TABLE", help="see docs/tables.md")
    rows = whole_number(1, what="number of rows")
    show.add_argument("--limit", metavar="N", type=rows, default=20, help="rows (default: 20)")
    for name, step in {"ingest": ingest, "tables": tables, "show": show, "replay": replay, "clean": clean}.items():
        step.set_defaults(job=f"regroup.cli.spark.pipeline:{name}")
        _add_master(step)


def add_campaign_arguments(parser: ArgumentParser) -> None:
    parser.description = CAMPAIGN_HELP
    parser.set_defaults(job="regroup.cli.spark.campaign:run", **SPARK_PACKAGES)
    parser.add_argument("plan", metavar="PLAN", help="a grid of scenarios (docs/pipeline.md)")
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help="where the runs are written; needed unless --only is given"
    )
    parser.add_argument("--only", metavar="RUN", help="repeat this one run, in this process")
    parser.add_argument("--store", metavar="FILE", help="with --only: the store that the run is written to")
    _add_master(parser)


def add_report_arguments(parser: ArgumentParser) -> None:
    parser.description = REPORT_HELP
    parser.set_defaults(job="regroup.cli.spark.pipeline:report", **SPARK_PACKAGES)
    parser.add_argument("folder", metavar="DIR", help="the folder of `regroup pipeline tables`")
    _add_master(parser)


def _add_master(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="M", help="Spark's address: local[2], spark://host:7077 (default: this machine, all cores)"
    )
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        type=spark_setting,
        action="append",
        default=[],
        help="a setting of Spark, such as spark.hadoop.fs.s3a.endpoint=https://host:9000; can be repeated",
    )


def spark_setting(text: str) -> tuple[str, str]:
    """The name and the value of a setting. Raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not sign or not name.startswith("spark."):
        raise ArgumentTypeError(f"invalid setting: {text!r}; write spark.NAME=VALUE")
    return name, value
