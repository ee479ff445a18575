"""Commands, their options, and what they exit with."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import skfairdp
from skfairdp.command_line import report_options
from skfairdp.command_line.errors import Terminated, explained, show_warning, terminable
from skfairdp.fairness.notions import NOTIONS

# An environment variable, never an argument: those can be seen by all users of the machine.
PASSPHRASE = "SKFAIRDP_KEY_PASSPHRASE"
DESCRIPTION = """\
Train models that protect the people in their data and treat groups alike, and file what holds.

exit codes: 0 done, and what was asked for holds; 1 done, and it doesn't; 2 something given is not
what it should be; 3 the privacy budget has no room, and nothing was trained; 4 a fault of this
program; 130 and 143 interrupted and terminated
"""
VERIFY = """\
Recomputes what a certificate claims from what it stores: bounds, estimates and intervals from
counts, epsilon from events. Then compares the digest of the model in the file with the one that the
certificate names.

What a pickle holds is run when it is loaded, so the model comes last: not before the figures hold,
the signature is valid (--key), and the file is the one whose SHA-256 the certificate names, if it
names one. Only a valid signature makes that safe; without one, a stranger can have written both.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind ``skfairdp`` or ``python -m skfairdp``; None takes it from there.

    Returns
    -------
    int
        Exit code: 0 done, and what was asked for holds; 1 done, and it does not hold;
        2 something given is not what it should be; 3 the privacy budget has no room; 4 a
        fault of this program; 130 interrupted, 143 terminated.
    """
    parsed = _parser().parse_args(arguments)
    with warnings.catch_warnings(), terminable():
        warnings.showwarning = show_warning
        try:
            code: int = parsed.run(parsed)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        except (Exception, KeyboardInterrupt, Terminated) as error:
            code, message = explained(error)
            for line in (message, *getattr(error, "__notes__", ())):
                print(f"skfairdp: {line}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skfairdp",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"skfairdp {skfairdp.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    parser_of_report = commands.add_parser(
        "report",
        help="train a model on a table, certify it, write a page",
        description=report_options.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report_options.add_options(parser_of_report)
    parser_of_report.set_defaults(run=_command("reporting", "report"))
    _add_schema(commands)
    _add_verify(commands)
    _add_keygen(commands)
    _add_ledger(commands)
    _add_monitor(commands)
    return parser


def _command(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """A command that is imported when it is run, so that help is there at once."""

    def run(arguments: argparse.Namespace) -> int:
        commands = importlib.import_module(f"skfairdp.command_line.{module}")
        code: int = getattr(commands, name)(arguments)
        return code

    return run


def _add_schema(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "schema",
        help="draft a schema from names and types of columns",
        description="Print a schema (JSON) to be filled in: numbers need public bounds, texts the "
        "list of their categories. Names and types are looked at, and no value.",
    )
    parser.add_argument("data", type=Path, help="CSV or Parquet file")
    parser.set_defaults(run=_command("drafting", "draft"))


def _add_verify(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify",
        help="recompute a certificate, check its signature and its model",
        description=VERIFY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("certificate", type=Path, help="certificate (JSON)")
    parser.add_argument("model", type=Path, help="model, written by pickle or joblib")
    parser.add_argument("--sha256", metavar="HEX", help="load the model only if this is its digest")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="public key (PEM) that must have signed it"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 too where a figure can't be recomputed"
    )
    parser.set_defaults(run=_command("checking", "verify"))


def _add_keygen(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "keygen",
        help="make a pair of keys for signing certificates",
        description="Make an Ed25519 key pair. Nothing is overwritten; only you can read the "
        "private key.",
    )
    parser.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="FILE",
        help="private key; the public one goes beside it",
    )
    parser.add_argument(
        "--passphrase",
        action="store_true",
        help=f"encrypt the private key; the passphrase is asked for, or taken from {PASSPHRASE}",
    )
    parser.set_defaults(run=_command("keys", "keygen"))


def _add_ledger(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "ledger",
        help="print what was spent on each data set",
        description="Print totals, budget and entries of a privacy ledger.",
    )
    parser.add_argument("file", type=Path, help="the ledger")
    parser.add_argument("--data-set", metavar="NAME", help="only this one")
    parser.add_argument("--json", action="store_true", help="as JSON, with the released events")
    parser.set_defaults(run=_command("checking", "show_ledger"))


def _add_monitor(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "monitor",
        help="append decisions to a monitor; exits with 1 on an alarm",
        description="Append a file of decisions, one a row and in their order, to a monitor of a "
        "certified gap; without a file, tell what it knows. Exits with 1 if there has been an "
        "alarm or a drift. A file that is in already is refused.",
    )
    add = parser.add_argument
    add("data", nargs="?", type=Path, help="CSV or Parquet file of decisions")
    add("--certificate", required=True, type=Path, metavar="FILE", help="what was certified (JSON)")
    add(
        "--state",
        type=Path,
        metavar="FILE",
        help="the monitor (SQLite; default: what the certificate names)",
    )
    add("--decision", default="decision", metavar="COLUMN", help="0 or 1 (default: decision)")
    add(
        "--sensitive",
        action="append",
        metavar="COLUMN",
        help="the groups (default: group); again for intersections",
    )
    add("--label", default="label", metavar="COLUMN", help="true outcome, where the claim needs it")
    add("--id", metavar="COLUMN", help="names of rows, by which labels can come late")
    add("--late", action="store_true", help="the file brings labels of rows that wait, by id")
    add("--out", type=Path, metavar="FILE", help="a page of certificate and monitor (HTML)")
    add("--positive", metavar="VALUE", help="the favourable outcome, if it isn't 1")
    add("--notion", choices=tuple(NOTIONS), help="which claim, if there are several")
    add(
        "--tolerance",
        type=report_options.share,
        help="largest acceptable gap (default: the certified one)",
    )
    parser.set_defaults(run=_command("monitoring", "monitor"))
