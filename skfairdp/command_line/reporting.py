"""``report``: from a table to a filed report."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import pandas as pd

from skfairdp import PrivacyLedger, certifiable
from skfairdp.command_line.checking import private_key
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import check_outputs, read_document, read_rows, say
from skfairdp.command_line.parsing import ENOUGH_FOR_TABLES, MECHANISMS
from skfairdp.command_line.schema import schema_from
from skfairdp.command_line.table import People, people_of
from skfairdp.fairness.notions import NOTIONS
from skfairdp.persons import warn_of_ids
from skfairdp.privacy.noise import NoiseSource

# Notions that compare rates among rows with one true label.
_BY_LABEL = {n for n, each in NOTIONS.items() if each.needs_labels and each.compares_predictions}


def report(arguments: argparse.Namespace) -> int:
    """Train, certify, write the page; 1 if the certificate does not show the tolerance."""
    arguments.notion = arguments.notion or ["demographic_parity"]
    asked = arguments.mechanism
    _choose_mechanism(arguments)  # wrong options show before a file is read
    for option, names in (("--sensitive", arguments.sensitive), ("--notion", arguments.notion)):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise CommandError(f"{option} names {twice[0]!r} twice; give each once.")
    ledger = _ledger(arguments)
    if arguments.sign is not None and arguments.certificate is None:
        raise CommandError("--sign signs the certificate; say by --certificate where it goes.")
    key = None if arguments.sign is None else private_key(arguments.sign)
    given = vars(arguments)
    check_outputs(
        {f"--{name}": given[name] for name in ("out", "certificate", "model", "card")},
        {"data": arguments.data} | {f"--{n}": given[n] for n in ("schema", "ledger", "sign")},
    )
    declared = None if arguments.schema is None else schema_from(read_document(arguments.schema))
    say(arguments, f"Reading {arguments.data}")
    public = None if arguments.bounds_are_public else (arguments.target, *arguments.sensitive)
    rows = read_rows(arguments.data, inferred=public)
    if arguments.check_ids:
        features = rows.drop(columns=[arguments.target, *arguments.sensitive], errors="ignore")
        warn_of_ids(features, persons_known=arguments.person_ids is not None)
    people = people_of(rows, arguments, declared)
    persons = people.persons
    if asked is None and persons.count * arguments.epsilon < ENOUGH_FOR_TABLES:
        arguments.mechanism = "rates"
    noise = NoiseSource()
    # Each person by its own draw: who is held out then depends on nobody else.
    held = (noise.sampling.random(persons.count) < arguments.held_out)[persons.codes]
    _check_parts(people, held)
    _say_what_can_be_shown(arguments, people, held)
    # Brings torch: seconds that a wrong option or column need not cost.
    from skfairdp.command_line.filing import ChargedReport

    parts = people.part(~held), people.part(held)
    return ChargedReport(arguments, *parts, noise, ledger, key).file()


def _choose_mechanism(arguments: argparse.Namespace) -> None:
    """Take the usual mechanism where none is named, and refuse options that it has not."""
    several = len(arguments.notion) > 1
    name = arguments.mechanism = arguments.mechanism or MECHANISMS[several]
    if several and name == "fair-path":
        raise CommandError("--mechanism fair-path takes one --notion; for several take rates.")
    if arguments.threshold is not None and name != "fairdp":
        raise CommandError(f"--threshold has no meaning for --mechanism {name}; take fairdp.")


def _check_parts(people: People, held: np.ndarray) -> None:
    """Refuse, before anything is spent, a draw that leaves nothing to train or certify on."""
    groups = people.groups
    found = [len(groups[part].drop_duplicates()) for part in (held, ~held)]
    if min(found) < len(groups.drop_duplicates()):
        raise CommandError(
            "The draw of --held-out left a group without rows to train or to certify on; choose a "
            "share that leaves some of every group in both parts, such as 0.3."
        )


def _say_what_can_be_shown(arguments: argparse.Namespace, people: People, held: np.ndarray) -> None:
    """Say, before anything is spent, whether public numbers of rows can show the tolerance."""
    public = arguments.held_out_is_public
    _, first = np.unique(people.persons.codes, return_index=True)  # a row of each person
    groups = pd.DataFrame(people.groups.iloc[first[held[first]] if public else first])
    sizes = groups.groupby(list(groups), observed=True).size()
    if not public:  # who was drawn is secret; how large groups are is not
        sizes = np.floor(sizes * arguments.held_out).astype(int)
    asked: dict[str, Any] = {
        "confidence_level": arguments.confidence,
        "n_claims": len(arguments.notion),
        "count_epsilon": None if public else arguments.epsilon,
    }
    numbers, tolerance = {str(name): int(n) for name, n in sizes.items()}, arguments.tolerance
    found = certifiable(numbers, **asked)
    if found.smallest <= tolerance:
        return
    if tolerance < 0.01:  # to find how many rows it takes would take minutes
        shown = f"{found} At such rates they cannot show a tolerance of {tolerance:g}."
    else:
        shown = str(certifiable(numbers, tolerance, **asked))
    about = "" if public else "about "
    by_label = [name for name in arguments.notion if name in _BY_LABEL]
    labels = (
        f" For {' and '.join(by_label)} that many rows of each compared label are needed in each "
        "group; numbers of labels are private until bought, and are not looked at here."
    ) * bool(by_label)
    print(
        f"Before anything is spent: {about}{min(numbers.values())} rows of the smallest group are "
        f"held out. {shown}{labels}",
        file=sys.stderr,
        flush=True,
    )


def _ledger(arguments: argparse.Namespace) -> PrivacyLedger | None:
    if arguments.ledger is None:
        if arguments.budget is not None or arguments.data_set is not None:
            raise CommandError("--budget and --data-set are about a ledger; name it by --ledger.")
        return None
    name = arguments.data.stem if arguments.data_set is None else arguments.data_set
    return PrivacyLedger(arguments.ledger, name, budget=arguments.budget)
