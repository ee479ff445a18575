"""``python -m skfairdp``, for where the script ``skfairdp`` is not on the path."""

from __future__ import annotations

import sys

from skfairdp.command_line import main

if __name__ == "__main__":
    sys.exit(main())
