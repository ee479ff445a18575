"""``monitor``: append decisions to a monitor, and say whether a certified gap still holds."""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
from pathlib import Path

import numpy as np
import pandas as pd

from skfairdp import Certificate, GapMonitor
from skfairdp.certificate.render.record_sections import check_watch
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import check_outputs, read_bytes, read_text, write_whole
from skfairdp.command_line.reading import read_rows
from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import get_notion
from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.foundation.assumptions import POSITIVE_OUTCOME


def monitor(arguments: argparse.Namespace) -> int:
    """Append a file to a monitor; 1 if there has been an alarm or a drift, else 0."""
    arguments.sensitive = arguments.sensitive or ["group"]
    try:
        certificate = Certificate.from_json(read_text(arguments.certificate))
    except ValueError as error:
        raise CommandError(f"{arguments.certificate} is not a certificate: {error}") from None
    state = arguments.state or certificate.monitor_file
    if state is None:
        raise CommandError(f"{arguments.certificate} names no monitor's file; give it by --state.")
    check_outputs({"--out": arguments.out}, {"--state": Path(state)})
    if arguments.data is None:
        if not Path(state).is_file():
            raise CommandError(
                f"There is no monitor's file {str(state)!r}; the first file of decisions makes it."
            )
        return _told(certificate, GapMonitor.from_file(state), arguments.out)
    claim = _claim(certificate, arguments)
    if claim.notion in NUMBER_NOTIONS:
        raise CommandError(
            f"{arguments.certificate} is about predicted numbers, whose file of decisions this "
            "command does not read. In Python, skfairdp.GapMonitor('distribution_gap', "
            "target_bounds=(low, high)) watches them."
        )
    if not claim.informative and arguments.tolerance is None:
        raise CommandError(
            f"{arguments.certificate} has no useful bound; give the acceptable gap by --tolerance."
        )
    arguments.other = None
    if arguments.positive is None:
        arguments.positive, arguments.other = _certified_outcomes(claim)
    rows = read_rows(arguments.data)
    largest = float(claim.figure) if arguments.tolerance is None else arguments.tolerance
    level = claim.confidence_level or 0.95
    watched = GapMonitor(claim.notion, largest, level, claim.groups, state=state)
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
        batch = hashlib.sha256(read_bytes(arguments.data)).hexdigest()
        groups = rows[arguments.sensitive].squeeze(axis="columns")
        answers = _outcomes(rows[arguments.decision], arguments)
        try:
            watched.update(answers, groups, labels, ids=ids if waits else None, batch=batch)
        except MonitorError as error:
            raise MonitorError(str(error).replace(batch, str(arguments.data))) from None
    return _told(certificate, watched, arguments.out)


def _told(certificate: Certificate, watched: GapMonitor, out: Path | None) -> int:
    """Print both, and write them; 1 if there has been an alarm or a drift, else 0."""
    check_watch(watched, certificate.fairness)
    print(f"Certified: {certificate.sentence}\nSince then: {watched}")
    if not (watched.alarm_ or watched.cleared_):
        needed = watched.certifiable([1, 1]).rows_needed
        if needed is not None and watched.n_rows_ >= needed * len(watched.groups_ or ()) > 0:
            print(
                f"Not cleared by {watched.n_rows_:,} rows: the gap is near {watched.tolerance:g}, "
                "or a group has few of them."
            )
        else:
            rows = "more than ten million" if needed is None else f"some {needed:,}"
            print(f"To be cleared, equal rates of one half take {rows} rows in each group.")
    if out is not None:
        write_whole(out, certificate.to_html(monitor=watched))
    return int(watched.alarm_ or watched.drift_)


def _claim(certificate: Certificate, arguments: argparse.Namespace) -> FairnessGuarantee:
    deployed = (claim for claim in certificate.fairness if claim.scope == DEPLOYED)
    claims = [claim for claim in deployed if arguments.notion in (None, claim.notion)]
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
        raise CommandError(f"The column {column.name!r} has missing values; late labels need --id.")
    if arguments.positive is None:
        return column.to_numpy(dtype=np.float64) if missing else column.to_numpy()
    found = set(column.dropna().astype(str))
    if len(found) > 2:
        raise CommandError(f"The column {column.name!r} has more than two values.")
    if arguments.other is not None and not found <= {arguments.positive, arguments.other}:
        raise CommandError(
            f"The column {column.name!r} holds other values than {arguments.positive} and "
            f"{arguments.other}, as certified; say by --positive which one is favourable."
        )
    return np.where(gaps, np.nan, (column.astype(str) == arguments.positive).to_numpy())


def _certified_outcomes(claim: FairnessGuarantee) -> tuple[str | None, str | None]:
    """The favourable outcome that a certificate names, and the other one; None where it is 1."""
    pattern = re.escape(POSITIVE_OUTCOME.format(positive="+", other="-"))
    pattern = pattern.replace(re.escape("'+'"), "(.+)").replace(re.escape("'-'"), "(.+)")
    matched = next(filter(None, (re.fullmatch(pattern, text) for text in claim.assumptions)), None)
    if matched is None:
        return None, None
    try:
        positive, other = (str(ast.literal_eval(value)) for value in matched.groups())
    except (SyntaxError, ValueError):  # no text, number or truth value
        raise CommandError(
            "No file spells the certified outcomes; say by --positive which one is favourable."
        ) from None
    return (None, None) if positive in ("1", "1.0", "True") else (positive, other)
