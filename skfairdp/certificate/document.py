"""A certificate as a JSON document: what it may hold, and how it is read."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skfairdp.certificate.statement import Certificate

__all__ = ["FORMAT", "certificate_document", "checked_document", "own_version", "strict_json"]

FORMAT = "skfairdp certificate 1"

_TEXTS = ("format", "sentence", "model_digest", "model_name", "created")
_PARTS = ("privacy", "fairness", "n_rows", "remarks", "library_versions")
# Not in files of earlier versions, or only in those that were signed.
_OPTIONAL = ("model_file", "signature")
_PRIVACY = (
    "epsilon",
    "delta",
    "adjacency",
    "protects",
    "accountant",
    "per_group",
    "event",
    "assumptions",
)


def certificate_document(certificate: Certificate) -> dict[str, Any]:
    """Write a certificate as JSON types.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    dict
    """
    privacy = certificate.privacy
    return {
        "format": FORMAT,
        "sentence": certificate.sentence,
        "privacy": None if privacy is None else privacy.to_dict(),
        "fairness": [claim.to_dict() for claim in certificate.fairness],
        "model_digest": certificate.model_digest,
        "model_name": certificate.model_name,
        "model_file": certificate.model_file,
        "n_rows": certificate.n_rows,
        "remarks": list(certificate.remarks),
        "created": certificate.created,
        "library_versions": certificate.library_versions,
    }


def strict_json(text: str) -> Any:
    """Parse JSON that has one meaning: no number beyond floats, no key twice.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        For anything else.
    """
    try:
        return json.loads(
            text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except RecursionError:
        raise ValueError("The text is nested too deeply.") from None


def checked_document(text: str) -> dict[str, Any]:
    """Parse the text of a certificate, and refuse what `certificate_document` never wrote.

    Parameters
    ----------
    text : str
        The JSON text.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        When it is not a certificate of a known format, or lacks or adds something.
    """
    document = strict_json(text)
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise ValueError(f"The text has another format than {FORMAT!r}.")
    _check_keys("The certificate", document, (*_TEXTS, *_PARTS), _OPTIONAL)
    for name in _TEXTS:
        _check(name, isinstance(document[name], str), "a text")
    _check("model_digest", bool(document["model_digest"]), "a digest")
    _check("remarks", _is_texts(document["remarks"]), "a list of texts")
    versions = document["library_versions"]
    _check(
        "library_versions",
        isinstance(versions, dict) and _is_texts(list(versions.values())),
        "names and versions",
    )
    n_rows = document["n_rows"]
    counted = isinstance(n_rows, int) and not isinstance(n_rows, bool) and n_rows >= 0
    _check("n_rows", n_rows is None or counted, "an integer >= 0, or null")
    _check("fairness", isinstance(document["fairness"], list), "a list")
    privacy = document["privacy"]
    if privacy is not None:
        _check("privacy", isinstance(privacy, dict), "an object, or null")
        _check_keys("'privacy'", privacy, _PRIVACY, ("exposures",))
    file = document.get("model_file")
    _check("model_file", file is None or _is_digest(file), "a SHA-256, or null")
    return document


def own_version() -> str:
    """Version of this package, as certificates name it.

    Returns
    -------
    str
    """
    try:
        return importlib.metadata.version("skfairdp")
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a distribution"


def _check_keys(
    what: str, found: Mapping[str, Any], needed: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"The text is not a whole certificate: {what} lacks {', '.join(missing)}.")
    unknown = sorted(set(found) - {*needed, *optional})
    if unknown:
        raise ValueError(f"{what} holds {', '.join(unknown)}, which no certificate has.")


def _check(name: str, kept: bool, wanted: str) -> None:
    if not kept:
        raise ValueError(f"{name!r} of a certificate must be {wanted}.")


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("A number is too large.")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key occurs twice in one object.")
    return found
