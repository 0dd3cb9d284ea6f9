"""`python -m heedful`."""

import sys

from heedful.cli.main import main

sys.exit(main())
