"""`python -m heedful`."""

import sys

from heedful.cli.start import main

sys.exit(main())
