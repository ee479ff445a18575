"""``monitor``: append decisions to a monitor, and tell whether a certified gap still holds."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from skfairdp import Certificate, GapMonitor
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import (
    check_outputs,
    read_bytes,
    read_rows,
    read_text,
    write_whole,
)
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import get_notion
from skfairdp.fairness.scopes import DEPLOYED


def monitor(arguments: argparse.Namespace) -> int:
    """Append a file to a monitor; 1 if there has been an alarm or a drift, else 0."""
    arguments.sensitive = arguments.sensitive or ["group"]
    certificate = _certificate(arguments.certificate)
    claim = _claim(certificate, arguments)
    if not claim.informative and arguments.tolerance is None:
        raise CommandError(
            f"{arguments.certificate} has no useful bound to watch; say by --tolerance which gap "
            "is acceptable."
        )
    if arguments.out is not None:
        check_outputs({"--out": arguments.out}, {"--state": arguments.state})
    rows = read_rows(arguments.data)
    watched = GapMonitor(
        claim.notion,
        float(claim.figure) if arguments.tolerance is None else arguments.tolerance,
        claim.confidence_level or 0.95,
        claim.groups,
        state=arguments.state,
    )
    labelled = get_notion(claim.notion).needs_labels
    if arguments.late and not labelled:
        raise CommandError(f"{claim.notion} needs no labels; leave out --late.")
    waits = arguments.late or arguments.id is not None  # else labels must be there
    identity = arguments.id or "id"
    needed = [identity] if waits else []
    needed += [] if arguments.late else [arguments.decision, *arguments.sensitive]
    needed += [arguments.label] if labelled and (arguments.late or not waits) else []
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        raise CommandError(f"{arguments.data} has no column {', '.join(map(repr, missing))}.")
    ids = rows[identity].tolist() if waits else []
    labels = None
    if labelled and arguments.label in rows.columns:
        labels = _outcomes(rows[arguments.label], arguments, missing=waits)
    if arguments.late:
        assert labels is not None
        watched.add_labels(ids, labels)
    else:
        groups = rows[arguments.sensitive]
        watched.update(
            _outcomes(rows[arguments.decision], arguments),
            groups.iloc[:, 0] if len(arguments.sensitive) == 1 else groups,
            labels,
            ids=ids if waits else None,
            batch=hashlib.sha256(read_bytes(arguments.data)).hexdigest(),
        )
    print(f"Certified: {certificate.sentence}\nSince then: {watched}")
    if arguments.out is not None:
        write_whole(arguments.out, certificate.to_html(monitor=watched))
    return int(watched.alarm_ or watched.drift_)


def _certificate(path: Path) -> Certificate:
    try:
        return Certificate.from_json(read_text(path))
    except ValueError as error:
        raise CommandError(f"{path} is not a certificate: {error}") from None


def _claim(certificate: Certificate, arguments: argparse.Namespace) -> FairnessGuarantee:
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


def _outcomes(
    column: pd.Series, arguments: argparse.Namespace, *, missing: bool = False
) -> np.ndarray:
    """Column of 0 and 1, and NaN where a label may come later."""
    gaps = column.isna().to_numpy()
    if gaps.any() and not missing:
        raise CommandError(
            f"The column {column.name!r} has missing values. Labels that come late need --id."
        )
    if arguments.positive is None:
        return column.to_numpy(dtype=np.float64) if missing else column.to_numpy()
    if column.dropna().astype(str).nunique() > 2:
        raise CommandError(f"The column {column.name!r} has more than two values.")
    return np.where(gaps, np.nan, (column.astype(str) == arguments.positive).to_numpy())
