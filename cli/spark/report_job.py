"""What `regroup report` does, with Spark at hand."""

import argparse

from pyspark.sql import SparkSession

from regroup.cli.spark.session import BEGINS_ANEW, on_spark
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.pipeline.bronze.stamp import is_fresh
from regroup.pipeline.campaign.grid import BadCampaign
from regroup.pipeline.report.page import write_report


def run(args: argparse.Namespace) -> int:
    """Old tables are told before Spark is started."""
    if not is_fresh(args.folder):
        complain(
            "report",
            f"the tables in {args.folder} are not of all that is there by now: "
            f"run `regroup pipeline tables {args.folder}` again.",
        )
        return CANNOT_BE_DONE
    try:
        return on_spark(args, report, when_stopped=BEGINS_ANEW)
    except BadCampaign as error:
        complain("report", str(error))
        return CANNOT_BE_DONE


def report(spark: SparkSession, args: argparse.Namespace) -> int:
    print(write_report(spark, args.folder))
    return 0
