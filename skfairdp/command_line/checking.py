"""``verify`` and ``ledger``: what was filed, and what was spent."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from typing import Any

import joblib

from skfairdp import Certificate, PrivacyLedger
from skfairdp.command_line.complaint import CommandError
from skfairdp.command_line.files import read_text

__all__ = ["show_ledger", "verify"]

_CARE = (
    "Loading {} runs whatever code the file holds: verify files of people whose programs you would "
    "run. (--sha256 compares the file with a digest that they gave you, before it is loaded.)"
)


def verify(arguments: argparse.Namespace) -> int:
    """Check that a certificate was issued for a model, and print what it says.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of the command.

    Returns
    -------
    int
        0 if it was, 1 if not.
    """
    try:
        certificate = Certificate.from_json(read_text(arguments.certificate))
    except ValueError as error:
        raise CommandError(f"{arguments.certificate} is no certificate: {error}") from None
    _check_bytes(arguments)
    print(_CARE.format(arguments.model), file=sys.stderr, flush=True)
    model = _loaded(arguments)
    if not certificate.verify(model):
        print(f"No: {arguments.certificate} was issued for another model, or for another state of")
        print(f"this one: {certificate.model_name}, {certificate.model_digest}.")
        return 1
    print(f"Yes: {arguments.certificate} was issued for the model in {arguments.model}. It says:")
    print(certificate)
    return 0


def _check_bytes(arguments: argparse.Namespace) -> None:
    if not arguments.model.is_file():
        raise CommandError(f"{arguments.model} does not exist; give the file of a model.")
    if arguments.sha256 is None:
        return
    found = hashlib.sha256(arguments.model.read_bytes()).hexdigest()
    if found != arguments.sha256.lower():
        raise CommandError(
            f"{arguments.model} has the SHA-256 {found}, not the one given. It was not loaded."
        )


def _loaded(arguments: argparse.Namespace) -> Any:
    try:
        model = joblib.load(arguments.model)  # takes plain pickles too
    except Exception as error:  # whatever the file makes it raise
        raise CommandError(
            f"{arguments.model} cannot be loaded as a model ({type(error).__name__}: {error}). It "
            "must have been written by pickle or joblib, with the library versions that the "
            "certificate names."
        ) from None
    if not hasattr(model, "predict"):
        raise CommandError(f"{arguments.model} holds a {type(model).__name__}, which is no model.")
    return model


def show_ledger(arguments: argparse.Namespace) -> int:
    """Print what was spent on each data set of a ledger.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of the command.

    Returns
    -------
    int
        0.
    """
    if not arguments.file.is_file():
        raise CommandError(f"There is no privacy ledger {arguments.file}.")
    ledger = PrivacyLedger(arguments.file)
    names = ledger.data_sets
    if arguments.data_set is not None and arguments.data_set not in names:
        raise CommandError(
            f"The ledger knows no data set {arguments.data_set!r}; it knows "
            f"{', '.join(map(repr, names)) or 'none'}."
        )
    chosen = [ledger.on(name) for name in names if arguments.data_set in (None, name)]
    if arguments.json:
        documents = [handle.to_dict() for handle in chosen]
        print(json.dumps(documents, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n\n".join(handle.summary() for handle in chosen) or "The ledger is empty.")
    return 0
