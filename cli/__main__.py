"""`python -m regroup.cli` is `regroup`."""

import sys

from regroup.cli.main import main

sys.exit(main())
