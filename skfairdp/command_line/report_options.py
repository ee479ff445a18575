"""Options of the command that trains, certifies and writes a page."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from skfairdp.certificate.render.templates import PLAIN, template_names
from skfairdp.fairness.notions import NOTIONS

# Rows times epsilon from which the noise in the tables of a path is small beside usual tolerances.
ENOUGH_FOR_TABLES = 10_000
# What is taken for one notion, what for several or for fewer rows, and the others.
MECHANISMS = ("fair-path", "rates", "fairdp", "dpsgd")
DESCRIPTION = """\
Trains a private classifier on a part of the rows, certifies it on the others and writes a page
that can be filed. A part of epsilon is spent to learn the bounds and categories of the columns. It
is saved, and the model is better, where these are public and declared in a schema file
(`skfairdp schema` drafts one):

  {"columns": {"income": {"bounds": [0, 50000], "log": true, "fill": 0},
               "purpose": {"categories": ["car", "home"]},
               "id": {"drop": true}}}

Who is held out is drawn row by row. The counts of the rows held out carry noise of the same
epsilon; as each row is trained on or held out, the run costs epsilon once, and so it is charged.

Files are written whole, the model first, then certificate, card and page. If a run breaks off, it
says what was charged, which stays charged, and which files are there.
"""


def add_options(add: Callable[..., Any]) -> None:
    """Add what a report can be told."""
    column, file = partial(add, metavar="COLUMN"), partial(add, type=Path, metavar="FILE")
    part, flag = partial(add, type=share), partial(add, action="store_true")
    add("data", type=Path, help="CSV or Parquet file, one person a row")
    column(
        "--person-ids",
        help="whose row it is, where a person has several: epsilon is then for all rows of a "
        "person, and people are held out, not rows. Never a feature",
    )
    flag(
        "--check-ids",
        help="look, without noise, for columns that seem to say whose row it is, and name them to "
        "you alone",
    )
    column("--target", required=True, help="the outcome, one of two values")
    groups = "the groups; again for intersections. Never a feature"
    column("--sensitive", required=True, action="append", help=groups)
    add("--epsilon", required=True, type=positive, help="largest privacy loss, in nats")
    part("--tolerance", default=0.05, help="largest difference between two groups (default 0.05)")
    file("--out", default=Path("report.html"), help="the page (default report.html)")
    part("--delta", default=1e-6, help="probability of failure (default 1e-6)")
    add("--positive", metavar="VALUE", help="the favourable outcome, if it isn't the larger number")
    unread = "a column that is not looked at, such as a number of the customer; again for more"
    column("--drop", action="append", default=[], help=unread)
    file("--schema", help="bounds and categories (JSON or YAML)")
    flag(
        "--bounds-are-public",
        help="read what the schema doesn't say off the rows: smallest and largest values and "
        "all categories in this file are public",
    )
    add(
        "--mechanism",
        choices=MECHANISMS,
        help="fair-path: one notion, every tolerance at once (default from "
        f"{ENOUGH_FOR_TABLES:,} rows at epsilon 1, twice as many at a half); rates: one or several "
        "notions (default else); fairdp: gradients of groups weigh the same; dpsgd: groups "
        "play no part",
    )
    part("--threshold", help="probability to decide from (fairdp; default 0.5)")
    compared = "what is compared between groups (default demographic_parity); again for more"
    add("--notion", action="append", choices=tuple(NOTIONS), help=compared)
    part("--held-out", default=0.3, help="share of the rows held out (default 0.3)")
    exact = "print exact counts of the rows held out: nothing protects these people"
    flag("--held-out-is-public", help=exact)
    part("--confidence", default=0.95, help="of the bounds (default 0.95)")
    file("--ledger", help="charge the privacy ledger in this file")
    add("--data-set", metavar="NAME", help="name of the rows in it (default: name of the file)")
    total = "largest total of the data set, fixed at the first run"
    add("--budget", nargs=2, type=float, metavar=("EPSILON", "DELTA"), help=total)
    file("--certificate", help="also write the certificate (JSON)")
    watched = "name this file in the certificate as where decisions will be watched (monitor)"
    file("--monitor", help=watched)
    file("--card", help="also write a model card (Markdown)")
    headings = "headings of page and card (default plain)"
    add("--template", choices=template_names(), default=PLAIN, help=headings)
    file("--model", help="also write the model (pickle)")
    add("--sign", type=Path, metavar="KEY", help="sign the certificate with this private key (PEM)")
    flag("--quiet", help="no progress")


def _number(text: str, words: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value < high:
        raise argparse.ArgumentTypeError(f"{text} is not a number {words}")
    return value


positive = partial(_number, words="of at least 0.0001", low=1e-4, high=math.inf)
share = partial(_number, words="between 0 and 1", low=math.ulp(0.0), high=1.0)
