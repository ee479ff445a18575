"""Run all references from outside, the long ones too: ``python -m tests.outside``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    marks = ["-m", "slow or campaign or not slow", "-o", "addopts=", "-p", "no:logging", "-ra"]
    sys.exit(pytest.main([str(Path(__file__).parent), *marks, *sys.argv[1:]]))
