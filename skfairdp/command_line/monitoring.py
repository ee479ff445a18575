"""``monitor``: append decisions to a monitor, and tell whether a certified gap still holds."""

from __future__ import annotations

import argparse
import hashlib

import numpy as np
import pandas as pd

from skfairdp import Certificate, GapMonitor
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import read_bytes, read_rows, read_text
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import get_notion
from skfairdp.fairness.scopes import DEPLOYED


def monitor(arguments: argparse.Namespace) -> int:
    """Append a file's decisions to a monitor; 1 if there has been an alarm or a drift, else 0."""
    arguments.sensitive = arguments.sensitive or ["group"]
    claim = _claim(arguments)
    if not claim.informative and arguments.tolerance is None:
        raise CommandError(
            f"{arguments.certificate} has no useful bound to watch; say by --tolerance which gap "
            "is acceptable."
        )
    rows = read_rows(arguments.data)
    labelled = get_notion(claim.notion).needs_labels
    wanted = [arguments.decision, *arguments.sensitive, *([arguments.label] if labelled else [])]
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        raise CommandError(f"{arguments.data} has no column {', '.join(map(repr, missing))}.")
    watched = GapMonitor(
        claim.notion,
        float(claim.figure) if arguments.tolerance is None else arguments.tolerance,
        claim.confidence_level or 0.95,
        claim.groups,
        state=arguments.state,
    )
    groups = rows[arguments.sensitive]
    watched.update(
        _outcomes(rows[arguments.decision], arguments),
        groups.iloc[:, 0] if len(arguments.sensitive) == 1 else groups,
        _outcomes(rows[arguments.label], arguments) if labelled else None,
        batch=hashlib.sha256(read_bytes(arguments.data)).hexdigest(),
    )
    print(watched)
    return int(watched.alarm_ or watched.drift_)


def _claim(arguments: argparse.Namespace) -> FairnessGuarantee:
    try:
        certificate = Certificate.from_json(read_text(arguments.certificate))
    except ValueError as error:
        raise CommandError(f"{arguments.certificate} is not a certificate: {error}") from None
    claims = [
        claim
        for claim in certificate.fairness
        if claim.scope == DEPLOYED and arguments.notion in (None, claim.notion)
    ]
    if not claims:
        raise CommandError(f"{arguments.certificate} has no such claim about the deployed model.")
    if len(claims) > 1:
        names = ", ".join(claim.notion for claim in claims)
        raise CommandError(f"Say by --notion which claim is watched: {names}.")
    return claims[0]


def _outcomes(column: pd.Series, arguments: argparse.Namespace) -> np.ndarray:
    if column.isna().any():
        raise CommandError(
            f"The column {column.name!r} has missing values. Labels that come late are for "
            "GapMonitor.add_labels in Python."
        )
    if arguments.positive is None:
        return column.to_numpy()
    found = column.astype(str)
    if found.nunique() > 2:
        raise CommandError(f"The column {column.name!r} has more than two values.")
    return (found == arguments.positive).to_numpy().astype(int)
