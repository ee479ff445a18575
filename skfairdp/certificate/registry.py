"""An entry for the registry of deployments of differential privacy, from a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.sentence import certificate_sentence
from skfairdp.foundation.assumptions import is_arithmetic
from skfairdp.foundation.figures import factor_text, significant_up
from skfairdp.privacy.accounting.events import canonical, parts_of
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.relations import PROTECTED, neighbours_text, protected_text

TO_BE_STATED = "to be stated"
# What only the people behind a deployment know. `data_curators` and `registry_authors` are lists.
ABOUT = (
    "url_slug",
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_region",
    "data_product_sector",
    "publication_date",
    "actors",
    "justification",
    "sources",
    "notes",
    "registry_authors",
)
# Those of them that templates ask for by name.
ANSWERED = ("justification", "intended_use", "data_curators")
TIMING = (
    "Timing and platform: running time, memory and errors of the machine are not part of what is "
    "released, and the guarantee does not cover a party that observes them during training."
)
_LISTS = ("data_curators", "registry_authors")


def check_about(about: Mapping[str, Any]) -> None:
    """Refuse names that nobody asks for, and a text in place of a list of names."""
    unknown = sorted(set(about) - set(ABOUT))
    if unknown:
        raise ValueError(f"'about' names {', '.join(unknown)}; it may name {', '.join(ABOUT)}.")
    for name in _LISTS:
        if name in about and (isinstance(about[name], str) or not list(about[name])):
            raise ValueError(f"{name!r} of 'about' must be a list of names; got {about[name]!r}.")


def registry_entry(
    claims: Claims, about: Mapping[str, Any], ledger: PrivacyLedger | None
) -> dict[str, Any]:
    """Fill in the registry's schema; what is not known is marked "to be stated"."""
    check_about(about)
    stated = claims.privacy
    if stated is None or stated.is_void:
        raise ValueError("The certificate promises no privacy, so there is nothing to register.")

    def told(name: str) -> Any:
        missing: Any = [TO_BE_STATED] if name in _LISTS else TO_BE_STATED
        return (
            str(about[name]) if name in about and name not in _LISTS else about.get(name, missing)
        )

    facts = {fact.name: fact.value for fact in claims.facts}
    basic = {name: told(name) for name in ABOUT[1:6]} | {
        "data_product_type": "Machine learning model",
        "publication_date": str(about.get("publication_date", claims.created[:10] or "1970-01-01")),
        "description": about.get("description") or _description(claims, facts),
    }
    if "data_product_sector" in about:
        basic["data_product_sector"] = str(about["data_product_sector"])
    administrative = {"registry_authors": told("registry_authors")}
    administrative |= {name: str(about[name]) for name in ("sources", "notes") if name in about}
    return {
        "url_slug": told("url_slug"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _variant(claims, stated, facts),
            "privacy_loss": _loss(stated),
            "deployment_model": _model(stated, told("actors"), ledger),
            "accounting": _accounting(stated, ledger),
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": " ".join(_preparation(claims, facts)),
                "mechanisms": " ".join(_mechanisms(claims, stated)),
                "justification": told("justification"),
            },
            "administrative": administrative,
        },
    }


def _description(claims: Claims, facts: Mapping[str, str]) -> str:
    what = facts.get("positive outcome", facts.get("target column", "an outcome"))
    sentence = certificate_sentence(claims.privacy, claims.fairness, claims.n_rows)
    return f"A classifier ({claims.model_name or 'unnamed'}) that predicts {what}. {sentence}"


def _variant(claims: Claims, stated: PrivacyGuarantee, facts: Mapping[str, str]) -> dict[str, Any]:
    columns = "; ".join(
        f"{name}: {facts[name]}"
        for name in ("features", "target column", "group columns")
        if name in facts
    )
    open_facts = "which class labels there are, and how many columns the table has"
    if stated.adjacency == "zero-out":
        open_facts += "; who is in which group, and the sizes of the groups"
    if stated.protects == "sensitive_features":
        open_facts += "; features and labels of all records"
    return {
        "variant_name": "Pure DP" if stated.delta == 0.0 else "Approximate DP",
        "data_domain": f"All tables of {PROTECTED[stated.protects].unit}s with the columns of the "
        f"training data, whatever their values ({columns or 'columns are not named'}).",
        "unprotected_quantities": f"Public, and so outside of the promise: {open_facts}. Whether a "
        "table passes the checks of its form is public, too.",
    }


def _loss(stated: PrivacyGuarantee) -> dict[str, Any]:
    return {
        "privacy_unit": protected_text(stated.protects, stated.adjacency),
        "privacy_unit_details": f"{stated.adjacency}: "
        f"{neighbours_text(stated.protects, stated.adjacency)}. Data sets at distance one are "
        "adjacent; the parameters are for distance one.",
        "privacy_parameters": {"epsilon": float(stated.epsilon), "delta": float(stated.delta)},
        "privacy_parameters_details": "Epsilon in nats, rounded up. Whatever anyone learns would "
        f"have been at most {factor_text(stated.epsilon)} times as likely or unlikely with an "
        f"adjacent data set, but for a failure of probability {significant_up(stated.delta)}. "
        f"Computed by: {stated.accountant or 'as stated'}.",
    }


def _model(stated: PrivacyGuarantee, actors: str, ledger: PrivacyLedger | None) -> dict[str, Any]:
    trusted = (
        "The curator holds the rows, trains and certifies, and is trusted with the rows and with "
        "the noise. A party that gets the model, its certificate or its answers is not trusted, "
        "and may know all other records."
    )
    release = {"release_type": "One release"}
    if ledger is not None and len(ledger) > 1:
        release = {
            "release_type": "Many releases",
            "release_type_details": f"{len(ledger)} releases from these people are in the ledger "
            "of the data set, and their total is kept there; it is never reset.",
        }
    return {
        "model_name": "Central",
        "actors": trusted if actors == TO_BE_STATED else f"{trusted} {actors}",
        **release,
        "data_source_type": "Static",
        "data_source_type_details": "One table, as it was at the time of training.",
        "access_type": "Non-interactive",
        "access_type_details": "The fitted model is the release. Its answers are computed from it "
        "and from the row that is asked about, and cost nothing further.",
    }


def _accounting(stated: PrivacyGuarantee, ledger: PrivacyLedger | None) -> dict[str, str]:
    steps = "All noisy releases of the training are composed as one plan that was fixed before."
    held = next((t for t in stated.assumptions if "training or hold-out by" in t), "")
    book = "" if ledger is None else " Releases from the same people add up in a privacy ledger."
    return {
        "post_processing": "Optimiser steps, averages of weights, choice of a point of a released "
        "path, thresholds, predictions and this certificate are functions of what was released.",
        "composition": f"{steps} {held}{book} Accountant: {stated.accountant or 'as stated'}.",
    }


def _preparation(claims: Claims, facts: Mapping[str, str]) -> Iterator[str]:
    stated = claims.privacy
    assert stated is not None
    if "PrivateTableEncoder" in claims.model_name:
        yield "Bins and categories of columns were learned from noisy counts, which is paid for."
    yield (
        "No step of the model learned from the rows without noise, but for those named here; what "
        "was done with the rows before they reached it is not known here."
    )
    for text in stated.assumptions:
        if "was declared public" in text or "were read off the rows" in text:
            yield f"Not paid for: {text}"
    if "alternatives" in facts:
        paid = "expected" in facts["alternatives"]
        yield (
            f"Hyperparameters were searched ({facts['alternatives']}), "
            f"{'which is paid for' if paid else 'and the certificate says at what cost'}."
        )
    else:
        yield (
            "No search of hyperparameters was part of the training. What was tried on these rows "
            "without the ledger is not known here."
        )


def _mechanisms(claims: Claims, stated: PrivacyGuarantee) -> Iterator[str]:
    events = [share.event for share in stated.exposures or ()] or [stated.event]
    parts = [
        part for event in events if event is not None for part, _ in parts_of(canonical(event))
    ]
    kinds = dict.fromkeys(_kind(type(_inner(part)).__name__) for part in parts)
    yield f"Mechanisms: {', '.join(kinds) or 'those of the accountant named above'}."
    named = ("skfairdp", "torch", "numpy", "dp-accounting", "python")
    versions = claims.library_versions
    yield "Software: " + ", ".join(f"{n} {versions[n]}" for n in named if n in versions) + "."
    yield "Floating point and random numbers: " + " ".join(
        f"{text[:1].upper()}{text[1:]}." for text in stated.assumptions if is_arithmetic(text)
    )
    yield (
        f"{TIMING} Access: the rows are read by the training process alone; who may start it, and "
        "how rows at rest are protected, is the curator's."
    )


def _inner(event: Any) -> Any:
    while hasattr(event, "event"):
        event = event.event
    return event


def _kind(name: str) -> str:
    return {"NoOpDpEvent": "none"}.get(name, name.removesuffix("DpEvent"))


def answers(claims: Claims, about: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Answer the questions that guidelines ask of a deployment, by the names in templates."""
    told = tuple(
        (name, ", ".join(map(str, about[name])) if name in _LISTS else str(about[name]))
        for name in ANSWERED
        if name in about
    )
    stated = claims.privacy
    if stated is None or stated.is_void:
        return told
    facts = {fact.name: fact.value for fact in claims.facts}
    variant, loss = _variant(claims, stated, facts), _loss(stated)
    return (
        *told,
        ("variant", variant["variant_name"]),
        ("exact adjacency", loss["privacy_unit_details"]),
        ("unprotected", variant["unprotected_quantities"]),
        ("mechanisms", " ".join(_mechanisms(claims, stated))),
        ("timing and platform", TIMING),
        ("post-processing", _accounting(stated, None)["post_processing"]),
        ("composition", _accounting(stated, None)["composition"]),
        ("preparation", " ".join(_preparation(claims, facts))),
        ("trust", _model(stated, str(about.get("actors", TO_BE_STATED)), None)["actors"]),
    )


def to_be_stated(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the fields of an entry that somebody still has to state."""
    found: list[str] = []
    for name, value in entry.items():
        if isinstance(value, Mapping):
            found += to_be_stated(value)
        elif value in (TO_BE_STATED, [TO_BE_STATED]):
            found.append(name)
    return tuple(found)
