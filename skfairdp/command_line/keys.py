"""``keygen``, and the passphrases of keys."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from skfairdp.certificate.signing import (
    fingerprint,
    load_private_key,
    load_public_key,
    read_key,
    write_new_key,
)
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.parsing import PASSPHRASE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def keygen(arguments: argparse.Namespace) -> int:
    """Make a pair of keys."""
    public = write_new_key(arguments.out, _new_passphrase(arguments.passphrase))
    print(f"Private key, to be kept: {arguments.out}")
    print(f"Public key, to be given to those who check certificates: {public}")
    print(f"Its fingerprint (SHA-256): {fingerprint(load_public_key(public))}")
    return 0


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, and ask for its passphrase where it has one."""
    locked = b"ENCRYPTED PRIVATE KEY" in read_key(path)
    return load_private_key(path, _asked(f"Passphrase of {path}: ") if locked else None)


def _new_passphrase(wanted: bool) -> bytes | None:
    if not wanted:
        return None
    first = _asked("Passphrase of the new key: ")
    if PASSPHRASE not in os.environ and _asked("The same again: ") != first:
        raise CommandError("The two passphrases differ; no key was made.")
    return first


def _asked(prompt: str) -> bytes:
    given = os.environ.get(PASSPHRASE)
    if given is None:
        if not sys.stdin.isatty():
            raise CommandError(f"A passphrase is needed: set {PASSPHRASE}, or run in a terminal.")
        given = getpass.getpass(prompt)
    if not given:
        raise CommandError("The passphrase is empty; give one of at least one character.")
    return given.encode("utf-8")
