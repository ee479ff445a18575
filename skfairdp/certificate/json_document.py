"""The JSON document of a certificate: its allowed keys and kinds of values."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from skfairdp.privacy.guarantee import PrivacyGuarantee

FORMAT = "skfairdp certificate 1"
AS_IT_IS: Any = {"ensure_ascii": False, "allow_nan": False}  # options of json.dumps
_HEX = re.compile("[0-9a-f]{64}").fullmatch
_DIGEST = re.compile("sha256:[0-9a-f]{64}").fullmatch


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_Rule = tuple[Callable[[Any], bool], str]
_TEXT: _Rule = (lambda value: isinstance(value, str), "a text")
_LIST: _Rule = (lambda value: isinstance(value, list), "a list")
_OBJECT: _Rule = (lambda value: isinstance(value, dict), "an object")
# What each key holds, in words for those who wrote something else.
_NEEDED: dict[str, _Rule] = {
    "format": _TEXT,
    "sentence": _TEXT,
    "model_digest": (lambda value: isinstance(value, str) and value != "", "a digest"),
    "model_name": _TEXT,
    "created": _TEXT,
    "privacy": (lambda value: value is None or isinstance(value, dict), "an object, or null"),
    "fairness": _LIST,
    "n_rows": (lambda n: n is None or (type(n) is int and n >= 0), "an integer >= 0, or null"),
    "remarks": (_is_texts, "a list of texts"),
    "library_versions": (
        lambda value: isinstance(value, dict) and _is_texts([*value.values()]),
        "names and versions",
    ),
}
# Not in files of earlier versions, or only in those that were signed.
_OPTIONAL: dict[str, _Rule] = {
    "model_file": (lambda v: v is None or (_TEXT[0](v) and bool(_HEX(v))), "a SHA-256, or null"),
    "monitor_file": _TEXT,
    "accuracy": _OBJECT,
    "outcomes": _OBJECT,
    "errors": _OBJECT,
    "scores": _OBJECT,
    "facts": _LIST,
    "derived": _OBJECT,
    "content_digest": (lambda v: _TEXT[0](v) and bool(_DIGEST(v)), "a digest"),
    "signature": (lambda value: True, "a signature"),  # its own module looks at it
}
_PRIVACY = {part.name for part in fields(PrivacyGuarantee)} - {"exposures"}


def strict_json(text: str) -> Any:
    """Parse JSON that has one meaning: no number beyond floats, no key twice."""
    try:
        return json.loads(
            text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except RecursionError:
        raise ValueError("The text is nested too deeply.") from None


def checked_document(text: str) -> dict[str, Any]:
    """Parse the text of a certificate; a ValueError for what `Claims.to_json` never wrote."""
    document = strict_json(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"The text has another format than {FORMAT!r}.")
    _check_keys("The certificate", document, _NEEDED, _OPTIONAL)
    for name, (kept, wanted) in (_NEEDED | _OPTIONAL).items():
        if name in document and not kept(document[name]):
            raise ValueError(f"{name!r} of a certificate must be {wanted}.")
    if document["privacy"] is not None:
        _check_keys("'privacy'", document["privacy"], _PRIVACY, ("exposures",))
    return document


def canonical_line(document: Mapping[str, Any]) -> bytes:
    """Write a document as one line of JSON: keys sorted, no spaces, nothing escaped needlessly."""
    line = json.dumps(document, sort_keys=True, separators=(",", ":"), **AS_IT_IS)
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("The certificate holds text that is not valid Unicode.") from None


def content_digest(document: Mapping[str, Any]) -> str:
    """Digest all that a document holds but this digest and a signature.

    It finds an edited file. It does not find a forger, who writes the digest anew.
    """
    held = {k: v for k, v in document.items() if k not in ("content_digest", "signature")}
    return f"sha256:{hashlib.sha256(canonical_line(held)).hexdigest()}"


def _check_keys(
    what: str, found: dict[str, Any], needed: Collection[str], optional: Collection[str]
) -> None:
    missing = sorted(set(needed) - set(found))
    if missing:
        raise ValueError(f"The text is not a whole certificate: {what} lacks {', '.join(missing)}.")
    unknown = sorted(set(found) - {*needed, *optional})
    if unknown:
        raise ValueError(f"{what} holds {', '.join(unknown)}, which certificates do not have.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("A number is out of range or not valid JSON (NaN, Infinity).")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key occurs twice in one object.")
    return found
