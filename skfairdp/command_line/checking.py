"""``verify``, ``keygen`` and ``ledger``: check filed certificates, make keys, print costs."""

from __future__ import annotations

import argparse
import getpass
import hashlib
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from skfairdp import Certificate, PrivacyLedger
from skfairdp.certificate import signing
from skfairdp.certificate.examination import DIGEST_SHOWS, contradictions
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import read_bytes, read_text
from skfairdp.command_line.parsing import PASSPHRASE
from skfairdp.receipts.unwrap import unwrap

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_END = re.compile(r"(?:lower|upper) end of the interval of .* in (\S+ \(.*\))")


def _in_short(recomputed: Collection[str]) -> Iterator[str]:
    """Name figures; of a claim's intervals, of which there may be hundreds, their number."""
    ends = Counter(found[1] if (found := _END.fullmatch(item)) else item for item in recomputed)
    for name, times in ends.items():
        yield name if name in recomputed else f"{times} ends of intervals of {name}"


def verify(arguments: argparse.Namespace) -> int:
    """Check a certificate, its signature, and its model, which is loaded only if all else holds."""
    key = None if arguments.key is None else signing.load_public_key(arguments.key)
    text = read_text(arguments.certificate)
    try:
        certificate = Certificate.from_json(text)
        signed = signing.is_signed(text)
        valid = key is not None and signing.check_signature(text, key)
    except ValueError as error:
        raise CommandError(f"{arguments.certificate} is not a certificate: {error}") from None
    content = read_bytes(arguments.model)
    found = certificate.examine()
    lines = [f"Recomputed: {', '.join(_in_short(found.recomputed)) or 'nothing'}."]
    lines += [f"Not recomputed: {item}." for item in found.missing]
    refused = list(found.wrong)
    if key is not None and not valid:
        refused.append(
            f"the signature is not that of {arguments.key} on this content"
            if signed
            else f"the certificate is not signed, and {arguments.key} was to have signed it"
        )
    if arguments.strict and found.missing:
        refused.append("not everything could be recomputed, and --strict was given")
    refused = refused or _file(arguments, content, certificate.model_file)
    if not refused:
        care = "verify files of people whose programs you would run."
        what = f"Loading {arguments.model} runs whatever code the file holds"
        print(f"{what}: {care}", file=sys.stderr, flush=True)
        model = _loaded(arguments.model, content)
        if not certificate.verify(model):
            refused += [*contradictions(certificate, unwrap(model))] or [
                "the model is another one, or in another state, than the certificate names: "
                f"{certificate.model_name}, {certificate.model_digest} (a certificate of an "
                "earlier version can name it by another digest: then certify the model again)"
            ]
    if refused:
        print(f"No: {arguments.certificate} does not hold for {arguments.model}.")
        print("\n".join([*(f"- {item[:1].upper()}{item[1:]}." for item in refused), *lines]))
        return 1
    named = f"{arguments.certificate} names the model in {arguments.model}"
    print(f"Yes: {named}, and its figures follow from what it stores.")
    signature = f"Signed with {arguments.key}. {signing.SIGNATURE_SHOWS}"
    if key is None:
        signature = "Signed, but not checked: give --key FILE." if signed else "It is not signed."
    print("\n".join([*lines, signature, DIGEST_SHOWS, "", "It says:", str(certificate)]))
    return 0


def _file(arguments: argparse.Namespace, content: bytes, named: str | None) -> list[str]:
    """Why a file is not loaded: it is not the one that the certificate names."""
    found, given = hashlib.sha256(content).hexdigest(), arguments.sha256
    if given is not None and found != given.lower():
        raise CommandError(
            f"{arguments.model} has the SHA-256 {found}, not the one given. It was not loaded."
        )
    if given is not None or named in (None, found):
        return []
    return [
        f"{arguments.model} is not the file that the certificate names (SHA-256 {named}), and was "
        "not loaded; if you know where it is from, give its own as --sha256"
    ]


def _loaded(path: Path, content: bytes) -> Any:
    try:
        model = joblib.load(io.BytesIO(content))  # takes plain pickles too
    except Exception as error:  # whatever the file makes it raise; the message may quote the file
        raise CommandError(
            f"{path} cannot be loaded as a model ({type(error).__name__}). It must have been "
            "written by pickle or joblib, with the library versions that the certificate names."
        ) from None
    if not hasattr(model, "predict"):
        raise CommandError(f"{path} holds a {type(model).__name__}, which is not a model.")
    return model


def show_ledger(arguments: argparse.Namespace) -> int:
    """Print the privacy spent on each data set of a ledger."""
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


def keygen(arguments: argparse.Namespace) -> int:
    secret = _asked("Passphrase of the new key: ") if arguments.passphrase else None
    if secret and PASSPHRASE not in os.environ and _asked("The same again: ") != secret:
        raise CommandError("The two passphrases differ; no key was made.")
    public = signing.write_new_key(arguments.out, secret)
    print(f"Private key, to be kept: {arguments.out}")
    print(f"Public key, to be given to those who check certificates: {public}")
    print(f"Its fingerprint (SHA-256): {signing.fingerprint(signing.load_public_key(public))}")
    return 0


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, and ask for its passphrase where it has one."""
    locked = b"ENCRYPTED PRIVATE KEY" in signing.read_key(path)
    return signing.load_private_key(path, _asked(f"Passphrase of {path}: ") if locked else None)


def _asked(prompt: str) -> bytes:
    given = os.environ.get(PASSPHRASE)
    if given is None:
        if not sys.stdin.isatty():
            raise CommandError(f"A passphrase is needed: set {PASSPHRASE}, or run in a terminal.")
        given = getpass.getpass(prompt)
    if not given:
        raise CommandError("The passphrase is empty; give one of at least one character.")
    return given.encode("utf-8")
