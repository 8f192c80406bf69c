"""Runs the command line: `python -m regroup` and `python -m regroup.cli` do the same as the command `regroup`."""

import sys

from regroup.cli.main import main

sys.exit(main())
