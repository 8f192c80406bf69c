"""The job of `regroup report`: one page about many runs."""

from argparse import Namespace

from pyspark.sql import SparkSession

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.spark.pipeline import require_tables
from regroup.cli.spark.session import STOPPED_NOT_RESUMABLE, run_on_spark
from regroup.pipeline.campaign.grid import InvalidCampaign
from regroup.pipeline.output_folder import tables_are_current
from regroup.pipeline.report.page import write_report


@cannot_run_after(InvalidCampaign)
def run(args: Namespace) -> int:
    """Check the tables before Spark is started."""
    require_tables(args.folder)
    if not tables_are_current(args.folder):
        raise CannotRun(f"the tables in {args.folder} lack newer events: regroup pipeline tables {args.folder}")
    return run_on_spark(args, _report, when_stopped=STOPPED_NOT_RESUMABLE)


def _report(spark: SparkSession, args: Namespace) -> int:
    print(write_report(spark, args.folder))
    return 0
