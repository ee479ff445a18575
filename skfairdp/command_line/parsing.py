"""Commands, their options and their exit codes."""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import skfairdp
from skfairdp.certificate.render.elements import PLAIN, template_names
from skfairdp.command_line.errors import Terminated, explained, show_warning, terminable
from skfairdp.fairness.notions import NOTIONS

# An environment variable, never an argument: those can be seen by all users of the machine.
PASSPHRASE = "SKFAIRDP_KEY_PASSPHRASE"
# Rows times epsilon from which the noise in a path's tables is below usual tolerances.
ENOUGH_FOR_TABLES = 10_000
# The mechanism for one notion, that for several or for fewer rows, and the others.
DATES = ("month-first", "day-first")
MECHANISMS = ("fair-path", "rates", "fairdp", "dpsgd")
DESCRIPTION = """\
Train models that protect the people in their data and treat groups alike, and file certificates.

exit codes: 0 done, and the requested limits are shown; 1 done, and they are not shown; 2 an
argument or a file is invalid; 3 the privacy budget has no room, and nothing was trained; 4 a fault
of this program; 130 and 143 interrupted and terminated
"""
REPORT = """\
Trains a private classifier on a part of the rows, certifies it on the others and writes a page
that can be filed. A part of epsilon is spent to learn the bounds and categories of the columns.
That part is saved, and the model is better, if they are public and declared in a schema file
(`skfairdp schema` drafts one):

  {"columns": {"income": {"bounds": [0, 50000], "log": true, "fill": 0},
               "purpose": {"categories": ["car", "home"]},
               "id": {"drop": true}}}

A random draw for each row says whether it is held out. Counts of held-out rows get noise of the
same epsilon. Each row is either trained on or held out, so the run costs, and is charged, epsilon
once.

Files are written whole, the model first, then certificate, card and page. If a run breaks off, it
lists the files that were written and the cost that was charged. That cost stays charged.
"""
PLAN = """\
Takes the options of a report and stops before it: prints how many rows of each group it would train
and certify on, the probability of showing the tolerance, the noise, whether there are enough rows
for any model, the gain from a schema, and the ledger before and after. Nothing is spent, and
nothing is written.
"""
VERIFY = """\
Recomputes the claims of a certificate from the figures that it stores: bounds, estimates and
intervals from counts, epsilon from events. Then compares the digest of the model in the file with
the one that the certificate names.

Loading a pickle runs the code in it, so the model is loaded last: only after the figures hold, the
signature is valid (--key), and the file has the SHA-256 that the certificate names, if it names
one. Only a valid signature makes that safe; without one, a stranger may have written both files.
"""
SCHEMA = """\
Prints a schema (JSON) to be filled in: public bounds of numbers, and lists of categories of texts.
Entries that are left as drafted are learned with a part of epsilon. The command reads names and
types of columns, and no value.
"""
KEYGEN = "Makes an Ed25519 key pair. Nothing is overwritten; only you can read the private key."
LEDGER = "Prints totals, budget and entries of a privacy ledger."
MONITOR = """\
Appends a file of decisions, one a row and in their order, to a monitor of a certified gap; without
a file, reports its state. Exits with 1 if there has been an alarm or a drift. A file that was
appended before is refused.
"""


class _Parser(argparse.ArgumentParser):
    """Prints an error about options without the list of all options."""

    def error(self, message: str) -> NoReturn:
        words = message.removeprefix("unrecognized arguments: ").split()
        if words[0] != message.split()[0] and not words[0].startswith("-"):
            message += (
                ". An option takes one value: repeat it for another, such as --sensitive sex "
                "--sensitive race, and quote a value with blanks"
            )
        if "required" in message and "--epsilon" in message:
            message += ". --epsilon limits the privacy loss: 1 is usual for records of people"
        self.exit(2, f"{self.prog}: error: {message}\nAll options: {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments of ``skfairdp`` or ``python -m skfairdp``; None: those of this process.

    Returns
    -------
    int
        Exit code: 0 done, and the requested limits are shown; 1 done, and they are not;
        2 an argument or a file is invalid; 3 the privacy budget has no room; 4 a
        fault of this program; 130 interrupted, 143 terminated.
    """
    parsed = _parser().parse_args(arguments)
    with _seldom_collected(), warnings.catch_warnings(), terminable():
        warnings.showwarning = show_warning
        try:
            code: int = parsed.run(parsed)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        except (Exception, KeyboardInterrupt, Terminated) as error:
            if getattr(parsed, "debug", False):
                traceback.print_exc()
            code, message = explained(error)
            for line in (message, *getattr(error, "__notes__", ())):
                print(f"skfairdp: {line}", file=sys.stderr)
    return code


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let the garbage collector look seldom, which saves a tenth of the time of a plan.

    Most objects come from imports and stay. Cycles that a long training leaves behind are found.
    """
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


_NO_HEADER = "the first line of a CSV file holds a row, and no names: column 1, column 2, ..."


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="skfairdp", description=DESCRIPTION, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"skfairdp {skfairdp.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(place: str, purpose: str, description: str) -> Callable[..., Any]:
        """Add a command; its module is imported when it is run, so that help is there at once."""
        name, module, function = place.split()
        shown: dict[str, Any] = {"description": description, "formatter_class": raw}
        own = commands.add_parser(name, help=purpose, **shown)

        def run(arguments: argparse.Namespace) -> int:
            imported = importlib.import_module(f"skfairdp.command_line.{module}")
            return getattr(imported, function)(arguments)

        own.set_defaults(run=run)
        return own.add_argument

    made = "train a model on a table, certify it, write a page"
    add = command("report reporting report", made, REPORT)
    _add_report_options(add)
    foretold = "state the limits that a report can show, and its cost; nothing is spent"
    add = command("plan reporting plan", foretold, PLAN)
    _add_report_options(add)
    add = command("schema schema draft", "draft a schema from names and types of columns", SCHEMA)
    add("data", type=Path, help="CSV or Parquet file")
    add("--no-header", action="store_false", dest="header", help=_NO_HEADER)
    checked = "recompute a certificate, check its signature and its model"
    add = command("verify checking verify", checked, VERIFY)
    add("certificate", type=Path, help="certificate (JSON)")
    add("model", type=Path, help="model, written by pickle or joblib")
    add("--sha256", metavar="HEX", help="load the model only if this is its digest")
    add("--key", type=Path, metavar="FILE", help="public key (PEM) that must have signed it")
    strict = "exit with 1 too where a figure can't be recomputed"
    add("--strict", action="store_true", help=strict)
    add = command("keygen checking keygen", "make a pair of keys for signing certificates", KEYGEN)
    beside = "private key; the public one is written to the same folder"
    add("--out", required=True, type=Path, metavar="FILE", help=beside)
    asked = f"encrypt the private key; the passphrase is asked for, or taken from {PASSPHRASE}"
    add("--passphrase", action="store_true", help=asked)
    add = command("ledger checking show_ledger", "print what was spent on each data set", LEDGER)
    add("file", type=Path, help="the ledger")
    add("--data-set", metavar="NAME", help="only this one")
    add("--json", action="store_true", help="as JSON, with the released events")
    watched = "append decisions to a monitor; exits with 1 on an alarm"
    add = command("monitor monitoring monitor", watched, MONITOR)
    add("data", nargs="?", type=Path, help="CSV or Parquet file of decisions")
    add("--certificate", required=True, type=Path, metavar="FILE", help="certificate (JSON)")
    named = "the monitor (SQLite; default: the file that the certificate names)"
    add("--state", type=Path, metavar="FILE", help=named)
    add("--decision", default="decision", metavar="COLUMN", help="0 or 1 (default: decision)")
    groups = "the groups (default: group); again for intersections"
    add("--sensitive", action="append", metavar="COLUMN", help=groups)
    add("--label", default="label", metavar="COLUMN", help="true outcome, where the claim needs it")
    add("--id", metavar="COLUMN", help="names of rows, by which labels can come late")
    add("--late", action="store_true", help="the file brings labels of rows that wait, by id")
    add("--out", type=Path, metavar="FILE", help="a page of certificate and monitor (HTML)")
    add("--positive", metavar="VALUE", help="the favourable one (default: the certified)")
    add("--notion", choices=tuple(NOTIONS), help="which claim, if there are several")
    largest = "largest acceptable gap (default: the certified one)"
    add("--tolerance", type=share, help=largest)
    return parser


def _add_report_options(add: Callable[..., Any]) -> None:
    """Add the options of a report."""
    column, file = partial(add, metavar="COLUMN"), partial(add, type=Path, metavar="FILE")
    part, flag = partial(add, type=share), partial(add, action="store_true")
    add("data", type=Path, help="CSV or Parquet file, one person a row")
    column(
        "--person-ids",
        help="the person of each row, if persons have several: epsilon is then for all rows of a "
        "person, and people are held out, not rows. Never a feature",
    )
    flag(
        "--check-ids",
        help="look, without noise, for columns that seem to identify persons, and name them to "
        "you alone",
    )
    column("--target", required=True, help="the outcome, of two values or up to ten")
    groups = "the groups; again for intersections. Never a feature"
    column("--sensitive", required=True, action="append", help=groups)
    loss = "largest privacy loss, in nats: less protects more, and 1 is usual for records of people"
    add("--epsilon", required=True, type=positive, help=loss)
    part(
        "--tolerance",
        help="largest difference of rates between two groups (default 0.05)",
    )
    part(
        "--ratio",
        help="smallest acceptable ratio of selection rates, such as .8; the tolerance is "
        "then 1 - RATIO times --base-rate, the share of all people with the favourable outcome",
    )
    part(
        "--base-rate",
        help="share of people with the favourable outcome, if it is publicly known; it is not "
        "read from the rows",
    )
    file("--out", default=Path("report.html"), help="the page (default report.html)")
    part("--delta", default=1e-6, help="probability of failure (default 1e-6)")
    favourable = "the favourable outcome; needed where the target has two values"
    add("--positive", metavar="VALUE", help=favourable)
    number = "the target is a number between these, such as --numeric 0 100; never guessed"
    add("--numeric", nargs=2, type=float, metavar=("LOW", "HIGH"), help=number)
    unread = "a column that is not looked at, such as a number of the customer; again for more"
    column("--drop", action="append", default=[], help=unread)
    kept = "a feature although its name is that of an identifier; again for more"
    column("--keep", action="append", default=[], help=kept)
    add(
        "--features",
        type=_listed,
        default=(),
        metavar="COLUMN,COLUMN",
        help="the only features (default: all columns that have no other part)",
    )
    merged = "put groups together under a new name; again for more"
    add("--merge", type=_merge, action="append", default=[], metavar="NEW=A,B", help=merged)
    without = "leave rows of a group out, of the training and of the claim; again for more"
    add("--leave-out", action="append", default=[], metavar="GROUP", help=without)
    flag("--skip-blank", help="leave rows out whose outcome or group is blank")
    add("--no-header", action="store_false", dest="header", help=_NO_HEADER)
    order = "how dates such as 3/4/2026 are written; 2026-04-03 and 3.4.2026 need no option"
    add("--dates", choices=DATES, help=order)
    file("--schema", help="bounds and categories (JSON or YAML)")
    flag(
        "--bounds-are-public",
        help="take missing entries of the schema from the rows: smallest and largest values and "
        "all categories in this file are public",
    )
    add(
        "--mechanism",
        choices=MECHANISMS,
        help="fair-path: one notion, every tolerance at once (default from "
        f"{ENOUGH_FOR_TABLES:,} rows at epsilon 1, twice as many at a half); rates: one or several "
        "notions (default otherwise); fairdp: gradients of groups have equal weight; dpsgd: groups "
        "play no part",
    )
    decided = (
        "give the favourable outcome from this probability on, where no tolerance is in the way "
    )
    decided += "(default 0.5; not for dpsgd)"
    part("--threshold", help=decided)
    compared = "notion to compare between groups (default demographic_parity); again for more"
    add("--notion", action="append", choices=tuple(NOTIONS), help=compared)
    part("--held-out", default=0.3, help="share of the rows held out (default 0.3)")
    exact = "print exact counts of the rows held out: nothing protects these people"
    flag("--held-out-is-public", help=exact)
    flag(
        "--scores",
        help="count scores of the rows held out by group too: calibration, and the share of each "
        "group above the middle; this takes a fourth of these rows' epsilon",
    )
    part("--confidence", default=0.95, help="of the bounds (default 0.95)")
    beside = "charge the privacy ledger in this file (default: TABLE.skfairdp-ledger.db)"
    file("--ledger", help=beside)
    flag("--no-ledger", help="record no privacy cost of these people")
    flag(
        "--new-ledger-key",
        help="the key by which --ledger recognises people is lost: go on with a new one, which "
        "does not recognise the people of earlier runs",
    )
    found = "name of the rows in it (default: that under which these people are known, or the file)"
    add("--data-set", metavar="NAME", help=found)
    total = "largest total of the data set, fixed at the first run"
    add("--budget", nargs=2, type=float, metavar=("EPSILON", "DELTA"), help=total)
    file("--certificate", help="also write the certificate (JSON)")
    watched = "name this file in the certificate as where decisions will be watched (monitor)"
    file("--monitor", help=watched)
    file("--card", help="also write a model card (Markdown)")
    file("--registry", help="also write an entry for a registry of deployments (YAML)")
    about = "facts for that entry, or for the questions of --template, that only you know, such as "
    about += "the purpose of the model (JSON or YAML)"
    file("--about", help=about)
    headings = "headings of page and card (default plain)"
    add("--template", choices=template_names(), default=PLAIN, help=headings)
    file("--model", help="also write the model (pickle)")
    add("--sign", type=Path, metavar="KEY", help="sign the certificate with this private key (PEM)")
    flag(
        "--plan", help="stop before anything is spent, and state the limits that the run could show"
    )
    flag("--anyway", help="run although the rows can hardly show the tolerance, and do not ask")
    flag("--quiet", help="no progress")
    flag("--debug", help="show where in the program an error came up; it may quote rows")


def _number(text: str, words: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value < high:
        raise argparse.ArgumentTypeError(f"{text} is not a number {words}{_meant(text, low, high)}")
    return value


def _meant(text: str, low: float, high: float) -> str:
    """Name the number that was meant by a percentage or by a decimal comma, if it is allowed."""
    bare = text.strip().replace(",", ".")
    try:
        value = float(bare.removesuffix("%"))
    except ValueError:
        return ""
    # Of a share, a number from 1 on is a percentage too.
    value = round(value / 100.0, 12) if "%" in bare or high == 1.0 <= value else value
    return f"; write {value:.12g}" if low <= value < high else ""


def _listed(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, like age,income")
    return names


def _merge(text: str) -> tuple[str, tuple[str, ...]]:
    new, _, values = text.partition("=")
    if not new.strip() or not values.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not like other=north,south")
    return new.strip(), _listed(values)


positive = partial(_number, words="of at least 0.0001", low=1e-4, high=math.inf)
share = partial(_number, words="between 0 and 1", low=math.ulp(0.0), high=1.0)
