"""`python -m regroup` and `python -m regroup.cli` run the command `regroup`."""

import sys

from regroup.cli.main import main

sys.exit(main())
