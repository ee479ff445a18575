"""Ed25519 signatures of certificates.

A signature covers the content of the JSON document, all but the signature itself. The signed text
is the line ``skfairdp certificate signature 1``, and then one line of JSON in UTF-8: keys of every
object sorted by code point, no spaces, texts unescaped where JSON allows it, floats in the fewest
digits that give them back, integers without a point. Spaces and the order of keys in the file may
change; any other change breaks the signature.

The cryptography is that of the package ``cryptography``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skfairdp.certificate.json_document import AS_IT_IS, canonical_line, checked_document
from skfairdp.exceptions import SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519 as keys

SIGNATURE_SHOWS = (
    "A valid signature shows that the holder of the private key signed exactly this content; it "
    "does not show that the content is true."
)
ALGORITHM = "Ed25519"
_CONTEXT = b"skfairdp certificate signature 1\n"
_HEX = re.compile(r"[0-9a-f]{128}")


def sign_certificate(text: str, key: keys.Ed25519PrivateKey) -> str:
    """Add a signature to the text of a certificate, in place of one that it had.

    Raises a ValueError when the text, what ``Certificate.to_json`` returned, is not a certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> from sklearn.dummy import DummyClassifier
    >>> from skfairdp import certify
    >>> from skfairdp.certificate.signing import check_signature, sign_certificate
    >>> key = Ed25519PrivateKey.generate()
    >>> text = certify(DummyClassifier().fit(np.zeros((2, 1)), [0, 1])).to_json()
    >>> signed = sign_certificate(text, key)
    >>> check_signature(signed, key.public_key())
    True
    >>> check_signature(signed.replace("DummyClassifier", "FairClassifier"), key.public_key())
    False
    """
    document = checked_document(text)
    document.pop("signature", None)
    value = key.sign(_canonical(document)).hex()
    signature = {"algorithm": ALGORITHM, "key": fingerprint(key.public_key()), "value": value}
    return json.dumps(document | {"signature": signature}, indent=2, **AS_IT_IS)


def is_signed(text: str) -> bool:
    """Whether the text of a certificate carries a signature, valid or not."""
    return "signature" in checked_document(text)


def check_signature(text: str, key: keys.Ed25519PublicKey) -> bool:
    """Whether a text carries a valid signature of a key.

    Raises a ValueError if the text is no certificate, and a SignatureError for a key of small
    order, under which one signature fits every text.
    """
    from cryptography.exceptions import InvalidSignature

    _refuse_small_order(key, "The public key")
    document = checked_document(text)
    signature = document.pop("signature", None)
    if not isinstance(signature, dict) or set(signature) != {"algorithm", "key", "value"}:
        return False
    named = (signature["algorithm"], signature["key"]) == (ALGORITHM, fingerprint(key))
    value = signature["value"]
    if not named or not isinstance(value, str) or not _HEX.fullmatch(value):
        return False
    try:
        key.verify(bytes.fromhex(value), _canonical(document))
    except InvalidSignature:
        return False
    return True


def fingerprint(key: keys.Ed25519PublicKey) -> str:
    """Name a public key by the SHA-256 of its 32 bytes, in hexadecimal digits."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def write_new_key(path: Path, passphrase: bytes | None = None) -> Path:
    """Make a pair of keys as PEM files in one folder, and return the path of the public one.

    Only their owner can read the private one. Raises a SignatureError where a file exists.
    """
    serialization, ed25519 = _library()
    public = path.with_name(f"{path.stem}.public{path.suffix or '.pem'}")
    key = ed25519.Ed25519PrivateKey.generate()
    lock: Any = serialization.NoEncryption()
    if passphrase:
        lock = serialization.BestAvailableEncryption(passphrase)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, lock)
    shown = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    _create(public, shown, 0o644)
    try:
        _create(path, secret, 0o600)
    except SignatureError:
        public.unlink()  # ours, and the half of no pair
        raise
    return public


def load_private_key(path: Path, passphrase: bytes | None = None) -> keys.Ed25519PrivateKey:
    """Read a private key from a PEM file; a SignatureError where that is not possible."""
    serialization, ed25519 = _library()
    content = read_key(path)
    try:
        key = serialization.load_pem_private_key(content, passphrase or None)
    except TypeError:  # one is needed and was not given, or the other way round
        needs = "needs a passphrase" if not passphrase else "is not encrypted: give no passphrase"
        raise SignatureError(f"The private key {path} {needs}.") from None
    except Exception:  # whatever the library makes of the file; it may quote it
        wrong = "holds no private key in PEM form, or its passphrase is wrong"
        raise SignatureError(f"{path} {wrong}.") from None
    return _of_kind(key, ed25519.Ed25519PrivateKey, path)


def load_public_key(path: Path) -> keys.Ed25519PublicKey:
    """Read a public key from a PEM file; a SignatureError where it holds none."""
    serialization, ed25519 = _library()
    content = read_key(path)
    if b"PRIVATE KEY" in content:
        raise SignatureError(f"{path} holds a private key; give the public one.")
    try:
        key = serialization.load_pem_public_key(content)
    except Exception:  # as above
        raise SignatureError(f"{path} holds no public key in PEM form.") from None
    found: keys.Ed25519PublicKey = _of_kind(key, ed25519.Ed25519PublicKey, path)
    _refuse_small_order(found, f"The public key {path}")
    return found


def _refuse_small_order(key: keys.Ed25519PublicKey, named: str) -> None:
    if _of_small_order(key.public_bytes_raw()):
        raise SignatureError(
            f"{named} is of small order: one constant signature fits every certificate under it, "
            "so it shows nothing. Get the key from the issuer again."
        )


@lru_cache(maxsize=64)
def _of_small_order(key: bytes) -> bool:
    """Whether a point P has 8 P = 0: it belongs to no private key, and its signatures are constant.

    The curve is -x^2 + y^2 = 1 + d x^2 y^2 over the integers modulo p. So x^2 follows from y, and
    the y of 2 P from x^2 and y^2; the neutral element has y = 1.
    """
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    y = int.from_bytes(key, "little") % 2**255 % p
    for _ in range(3):
        yy = y * y % p
        xx = (yy - 1) * pow(d * yy + 1, p - 2, p) % p
        y = (yy + xx) * pow(1 - d * xx * yy, p - 2, p) % p
    return y == 1


def _of_kind(key: Any, kind: type, path: Path) -> Any:
    if not isinstance(key, kind):
        raise SignatureError(f"{path} holds a key of another kind; {ALGORITHM} is needed.")
    return key


def _canonical(document: Mapping[str, Any]) -> bytes:
    return _CONTEXT + canonical_line(document)


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SignatureError("Signing needs cryptography: pip install 'skfairdp[sign]'.") from None
    return serialization, ed25519


def read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SignatureError(f"The key {path} cannot be read: {error.strerror}.") from None


def _create(path: Path, content: bytes, mode: int) -> None:
    try:
        with open(path, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
    except FileExistsError:
        raise SignatureError(f"{path} exists, and no key is overwritten; name another.") from None
    except OSError as error:
        raise SignatureError(f"{path} cannot be written: {error.strerror}.") from None
