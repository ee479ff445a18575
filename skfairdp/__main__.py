"""Entry point of ``python -m skfairdp``, without the script ``skfairdp`` on the path."""

from __future__ import annotations

import sys

from skfairdp.command_line import main

if __name__ == "__main__":
    sys.exit(main())
