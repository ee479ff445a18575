"""Commands, their options, and what they exit with."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import skfairdp
from skfairdp.command_line.checking import show_ledger, verify
from skfairdp.command_line.complaint import CommandError
from skfairdp.command_line.mechanisms import DEFAULT, MECHANISMS
from skfairdp.command_line.reporting import report
from skfairdp.exceptions import BudgetExceededError, LedgerError
from skfairdp.fairness.notions import NOTIONS

__all__ = ["main"]

DESCRIPTION = """\
Train models that protect the people in their data and treat groups alike, and file what holds.

exit codes: 0 done, and what was asked for holds; 1 done, and it doesn't; 2 something given is not
what it should be; 3 the privacy budget has no room, and nothing was trained; 4 a fault of this
program
"""
REPORT = """\
Trains a private classifier on a part of the rows, certifies it on the others and writes a page
that can be filed. Columns need public bounds or categories, from a schema file:

  {"columns": {"income": {"bounds": [0, 50000], "log": true, "fill": 0},
               "purpose": {"categories": ["car", "home"]},
               "id": {"drop": true}}}

Who is held out is drawn row by row. The counts of the rows held out carry noise of the same
epsilon.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind ``python -m skfairdp``; None takes it from there.

    Returns
    -------
    int
        Exit code: 0 done, and what was asked for holds; 1 done, and it does not hold;
        2 something given is not what it should be; 3 the privacy budget has no room; 4 a
        fault of this program.
    """
    parsed = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code: int = parsed.run(parsed)
        except BudgetExceededError as error:
            return _complain(error, 3)
        except (CommandError, LedgerError, ValueError, OSError) as error:
            return _complain(error, 2)
        except Exception as error:  # Python's own exit code would be 1: "it doesn't hold"
            return _confess(error)
    return code


def _complain(error: Exception, code: int) -> int:
    print(f"skfairdp: {error}", file=sys.stderr)
    return code


def _confess(error: Exception) -> int:
    place = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"skfairdp: {type(error).__name__}: {error} ({place.filename}, line {place.lineno}). This "
        "is a fault of this program, and no answer. What was charged stays charged.",
        file=sys.stderr,
    )
    return 4


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"skfairdp: note: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skfairdp",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"skfairdp {skfairdp.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_report(commands)
    _add_verify(commands)
    _add_ledger(commands)
    return parser


def _add_report(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        help="train a model on a table, certify it, write a page",
        description=REPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", type=Path, help="CSV or Parquet file, one person a row")
    add("--target", required=True, metavar="COLUMN", help="the outcome, one of two values")
    add(
        "--sensitive",
        required=True,
        action="append",
        metavar="COLUMN",
        help="the groups; again for intersections. Never a feature",
    )
    add("--epsilon", required=True, type=_positive, help="largest privacy loss, in nats")
    add("--tolerance", required=True, type=_share, help="largest difference between two groups")
    add("--out", required=True, type=Path, metavar="FILE", help="the page (HTML)")
    add("--delta", type=_share, default=1e-6, help="probability of failure (default 1e-6)")
    add("--positive", metavar="VALUE", help="the favourable outcome, if it isn't the larger number")
    add("--schema", type=Path, metavar="FILE", help="bounds and categories (JSON or YAML)")
    add(
        "--bounds-are-public",
        action="store_true",
        help="read what the schema doesn't say off the rows: smallest and largest values and "
        "all categories in this file are public",
    )
    add(
        "--mechanism",
        choices=tuple(MECHANISMS),
        default=DEFAULT,
        help="rates: rates are held to the tolerance (default); fairdp: gradients of groups weigh "
        "the same; dpsgd: groups play no part",
    )
    add("--threshold", type=_share, help="probability to decide from (fairdp; default 0.5)")
    add(
        "--notion",
        action="append",
        choices=tuple(NOTIONS),
        help="what is compared between groups (default demographic_parity); again for more",
    )
    add("--held-out", type=_share, default=0.3, help="share of the rows held out (default 0.3)")
    add(
        "--held-out-is-public",
        action="store_true",
        help="print exact counts of the rows held out: nothing protects these people",
    )
    add("--confidence", type=_share, default=0.95, help="of the bounds (default 0.95)")
    add("--ledger", type=Path, metavar="FILE", help="charge the privacy ledger in this file")
    add("--data-set", metavar="NAME", help="name of the rows in it (default: name of the file)")
    add(
        "--budget",
        nargs=2,
        type=float,
        metavar=("EPSILON", "DELTA"),
        help="largest total of the data set, fixed at the first run",
    )
    add("--certificate", type=Path, metavar="FILE", help="also write the certificate (JSON)")
    add("--card", type=Path, metavar="FILE", help="also write a model card (Markdown)")
    add("--model", type=Path, metavar="FILE", help="also write the model (pickle)")
    add("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    arguments.notion = arguments.notion or ["demographic_parity"]
    return report(arguments)


def _add_verify(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify",
        help="check that a certificate belongs to a model",
        description="Check that a certificate was issued for exactly this model. Loading a model "
        "runs whatever code its file holds.",
    )
    parser.add_argument("certificate", type=Path, help="certificate (JSON)")
    parser.add_argument("model", type=Path, help="model, written by pickle or joblib")
    parser.add_argument("--sha256", metavar="HEX", help="load the model only if this is its digest")
    parser.set_defaults(run=verify)


def _add_ledger(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "ledger",
        help="print what was spent on each data set",
        description="Print totals, budget and entries of a privacy ledger.",
    )
    parser.add_argument("file", type=Path, help="the ledger")
    parser.add_argument("--data-set", metavar="NAME", help="only this one")
    parser.add_argument("--json", action="store_true", help="as JSON, with the released events")
    parser.set_defaults(run=show_ledger)


def _positive(text: str) -> float:
    value = float(text)
    if not 1e-4 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0.0001")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a number between 0 and 1")
    return value
