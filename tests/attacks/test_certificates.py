"""Forged certificates: figures that do not follow, impossible values, broken signatures.

A party that edits a file can lie in it. A certificate stores enough that no figure can be made
better than its counts and events allow; a signature prevents any change.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skfairdp import AbstainingClassifier, Certificate, certify
from skfairdp.certificate import examination, signing
from skfairdp.certificate.signing import check_signature, sign_certificate
from skfairdp.command_line import main
from skfairdp.exceptions import SignatureError
from skfairdp.fairness import derivation
from skfairdp.fairness.bounds import stored
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.representation import LaplaceTransformer
from tests.certificate.forged import forged_text
from tests.common.roster import (
    APART,
    AROUND,
    ATTRIBUTE,
    CLOSED_FORM,
    ROSTER,
    SMOOTHED,
    VOTING,
    people,
)

X, Y, GROUPS = people()
NOTIONS = ["demographic_parity", "equalized_odds"]
SETTINGS: dict[str, dict[str, Any]] = {
    "exact": {"n_certificates": 2, "holdout": "public"},
    "difference": {"bound": "difference", "holdout": "public"},
    "noisy": {"count_epsilon": 0.8, "holdout": "per_record", "notion": "demographic_parity"},
    "noisy, public sizes": {
        "count_epsilon": 0.8,
        "holdout": "by_index",
        "cell_sizes": "public",
        "notion": "demographic_parity",
    },
}


@pytest.fixture(scope="module")
def model() -> Any:
    return clone(CLOSED_FORM["FairFM"]).fit(X, Y, sensitive_features=GROUPS)


@pytest.fixture(scope="module")
def texts(model: Any) -> dict[str, str]:
    made = {
        name: certify(model, X, Y, sensitive_features=GROUPS, **{"notion": NOTIONS, **settings})
        for name, settings in SETTINGS.items()
    }
    around = clone(SMOOTHED["FairSmooth of FM"]).fit(X, Y, sensitive_features=GROUPS)
    made["smoothed"] = certify(
        around, X, Y, sensitive_features=GROUPS, notion=NOTIONS, holdout="public"
    )
    return {name: certificate.to_json() for name, certificate in made.items()}


NAMES = [*SETTINGS, "smoothed"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a document that is no object and no list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    forged = pickle.loads(pickle.dumps(document))  # a copy, in a tenth of the time
    at(forged, path[:-1])[path[-1]] = value
    return forged


def with_own_sentence(document: dict[str, Any]) -> str:
    """A forger writes the sentence that the figures make."""
    text = forged_text(document)
    try:
        Certificate.from_json(text)
    except ValueError as error:
        _, _, sentence = str(error).partition("Expected: ")
        if sentence:
            return forged_text(document | {"sentence": sentence})
    return text


def passes(text: str) -> Certificate | None:
    """The certificate, unless it is refused or found wrong."""
    try:
        read = Certificate.from_json(text)
    except ValueError:
        return None
    return read if read.examine().holds else None


def passed(document: dict[str, Any]) -> Certificate | None:
    """The certificate of a document, with the forger's sentence where its own is refused."""
    try:
        read = Certificate.from_json(forged_text(document))
    except ValueError as error:
        _, _, sentence = str(error).partition("Expected: ")
        return passes(forged_text(document | {"sentence": sentence})) if sentence else None
    return read if read.examine().holds else None


def claims_more(forged: Certificate, true: Certificate) -> bool:
    """Whether a certificate promises anything that the true one doesn't."""
    pairs = zip(forged.fairness, true.fairness, strict=False)
    better = len(forged.fairness) > len(true.fairness) or any(
        one.notion != other.notion
        or one.scope != other.scope
        or one.bound < other.bound - 1e-5
        or (one.confidence_level or 1.0) > (other.confidence_level or 1.0) + 1e-5
        for one, other in pairs
    )
    one, other = forged.privacy, true.privacy
    if one is None or other is None:
        return better or one is not other
    groups = other.per_group or {}
    return (
        better
        or one.epsilon < other.epsilon * (1.0 - 1e-3)
        or one.delta < other.delta * (1.0 - 1e-3)
        or any(v < groups[k] * (1.0 - 1e-3) for k, v in (one.per_group or {}).items())
    )


def forgeries(text: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Every number of a certificate, moved: those that pass and promise more than is true."""
    document = json.loads(text)
    true = Certificate.from_json(text)
    found = []
    for path in leaves(document):
        value = at(document, path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        for other in (0, value * 0.9, value * 1.1, value + 1, -value):
            if other == value:
                continue
            read = passed(changed(document, path, other))
            if read is not None and claims_more(read, true):
                found.append((path, other))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_is_issued_is_recomputed_to_the_last_figure(texts, name) -> None:
    found = Certificate.from_json(texts[name]).examine()
    assert found.wrong == ()
    assert found.missing == ()
    assert any(item.startswith("bound on") for item in found.recomputed)
    assert any(item.startswith("epsilon") for item in found.recomputed)


KINDS = {
    "FairDP, five heads, one drawn": ROSTER,  # a bound on averages, and one over the last noise
    "DP-IS-SGD": ROSTER,  # an epsilon for every group
    "PF-LD": ATTRIBUTE,  # a changed attribute
    "PATE": VOTING,
    "FM, Laplace": CLOSED_FORM,  # pure, of sums
    "FM-Smooth": SMOOTHED,  # a bound from the length of the weights
}


def examined(certificate: Certificate) -> examination.Examination:
    return Certificate.from_json(certificate.to_json()).examine()


@pytest.mark.parametrize("name", KINDS)
def test_certificates_of_every_kind_are_recomputed(name) -> None:
    fitted = clone(KINDS[name][name]).fit(X, Y, sensitive_features=GROUPS)
    certificate = certify(fitted, X, Y, sensitive_features=GROUPS, notion=NOTIONS, holdout="public")
    found = examined(certificate)
    assert (found.wrong, found.missing) == ((), ())
    assert len(found.recomputed) > len(certificate.fairness)


def test_certificates_of_answers_and_of_releases_are_recomputed(model) -> None:
    gate = AbstainingClassifier(model, tolerance=0.3).fit(X, Y, sensitive_features=GROUPS)
    gate.predict(X[:60], sensitive_features=GROUPS[:60])
    release = LaplaceTransformer(epsilon=0.7).fit(X)
    release.transform(X[:5])
    for certificate in (certify(gate), certify(release)):
        found = examined(certificate)
        assert (found.wrong, found.missing) == ((), ())
        assert any(item.startswith("bound on") for item in found.recomputed)


@pytest.mark.slow
def test_the_certificate_of_a_search_is_recomputed() -> None:
    search = PrivateSearchCV(ROSTER["DP-SGD"], {"max_grad_norm": [0.3, 1.0]}, n_iter=2)
    search.fit(X, Y, sensitive_features=GROUPS)
    found = examined(certify(search, X, Y, sensitive_features=GROUPS, holdout="public"))
    assert (found.wrong, found.missing) == ((), ())
    assert "epsilon" in found.recomputed


def test_what_no_event_says_is_named() -> None:
    """A budget fixed in advance, and a mechanism that is no event of the accountant."""
    for name, room in (("thinning before DP-SGD", AROUND), ("randomised attribute", APART)):
        fitted = clone(room[name]).fit(X, Y, sensitive_features=GROUPS)
        found = examined(certify(fitted, X, Y, sensitive_features=GROUPS, holdout="public"))
        assert found.wrong == ()
        assert found.missing == (
            "epsilon: the guarantee holds no event, from which its cost would follow",
        )


def remembered(bound: Callable[..., float]) -> Callable[..., float]:
    known: dict[bytes, float] = {}

    def of(*counts: Any, **settings: Any) -> float:
        what = pickle.dumps((counts, settings))
        if what not in known:
            known[what] = bound(*counts, **settings)
        return known[what]

    return of


# tests/attacks/test_mutated_certificates.py changes everything that a claim says.
@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("exact", "noisy, public sizes")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
    ],
)
def test_no_figure_can_be_made_better_than_what_it_follows_from(texts, name, monkeypatch) -> None:
    # One number moves at a time: bounds of the counts that it leaves alone are known already.
    for module, slow in (
        (stored.rate_gaps, "gap_upper_bound"),
        (stored.noisy, "private_gap_upper_bound"),
    ):
        monkeypatch.setattr(module, slow, remembered(getattr(module, slow)))
    assert forgeries(texts[name]) == []


def test_an_examination_that_believes_the_file_lets_forgeries_pass(texts, monkeypatch) -> None:
    monkeypatch.setattr(examination, "recomputed_bound", lambda claim, how=None: claim.bound)
    assert ("fairness", 0, "bound") in [path for path, _ in forgeries(texts["exact"])]
    monkeypatch.setattr(
        examination,
        "recomputed_epsilons",
        lambda stated: {None: 0.0, **dict.fromkeys(stated.per_group or {}, 0.0)},
    )
    found = [path for path, _ in forgeries(texts["difference"])]
    assert ("privacy", "epsilon") in found or ("privacy", "delta") in found


@pytest.mark.parametrize("name", NAMES)
def test_a_forger_who_leaves_out_what_a_bound_follows_from_is_named(texts, name) -> None:
    document = json.loads(texts[name])
    for claim in document["fairness"]:
        claim["derivation"] = None
    read = Certificate.from_json(forged_text(document))
    missing = read.examine().missing
    assert all(f"bound on {c.notion} ({c.scope})" in " ".join(missing) for c in read.fairness)


def test_a_bound_without_source_still_cannot_go_below_what_its_counts_allow(texts) -> None:
    for name in ("exact", "difference"):
        document = json.loads(texts[name])
        claim = document["fairness"][0]
        claim["derivation"] = None
        claim["bound"] = claim["estimate"] + 0.001
        assert passes(with_own_sentence(document)) is None


def old_file(text: str) -> str:
    """As files were written before they stored what figures follow from."""
    document = json.loads(text)
    del document["model_file"], document["privacy"]["exposures"], document["content_digest"]
    newer = "held-out rows are counted"
    document["facts"] = [fact for fact in document["facts"] if fact["name"] != newer]
    for claim in document["fairness"]:
        del claim["derivation"]
    return json.dumps(document | {"sentence": "As it was worded then."})


@pytest.mark.parametrize("name", NAMES)
def test_older_files_load_and_what_they_lack_is_named(texts, name) -> None:
    read = Certificate.from_json(old_file(texts[name]))
    true = Certificate.from_json(texts[name])
    assert [(c.bound, c.counts) for c in read.fairness] == [
        (c.bound, c.counts) for c in true.fairness
    ]
    missing = read.examine().missing
    assert sum("does not say what it follows from" in item for item in missing) >= len(
        read.fairness
    )


IMPOSSIBLE: dict[tuple[Any, ...], tuple[Any, ...]] = {
    ("fairness", 0, "bound"): (-1, 1.5, "0.1", True, None),
    ("fairness", 0, "estimate"): (-0.1, 1.5, "0.1"),
    ("fairness", 0, "confidence_level"): (7.0, -3, 0, 1, "0.95", True),
    ("fairness", 0, "scope"): ("all models", "", None),
    ("fairness", 0, "notion"): ("kindness", None),
    ("fairness", 0, "counts", 0, "successes"): (-1, 1e9, "3", None),
    ("fairness", 0, "counts", 0, "trials"): (-1, "3", None),
    ("fairness", 0, "counts", 0, "low"): (0.5,),
    ("fairness", 0, "derivation"): ({"kind": "trust"}, {"kind": "counted", "claims": 1}, 3, "x"),
    ("fairness", 0, "derivation", "claims"): (0, -1, 1.5, True, "2"),
    ("privacy", "epsilon"): (-1, "-inf", None),
    ("privacy", "delta"): (-1e-9, 1, 2, "0"),
    ("privacy", "adjacency"): ("friends", None),
    ("privacy", "protects"): ("nobody", None),
    ("privacy", "per_group", 0, 1): (-1, 1e9),
    ("privacy", "event"): ({"kind": "HopeDpEvent"}, 3, [], "x"),
    ("privacy", "exposures", 0, "event"): ({"kind": "HopeDpEvent"}, None),
    ("n_rows",): (-1, 1.5, True, "596"),
    ("model_digest",): ("", None, 3),
    ("remarks",): ("text", [1]),
    ("library_versions",): ([], {"numpy": 2}),
    ("model_file",): ("short", 7),
    ("format",): ("skfairdp certificate 0", None),
}


@pytest.mark.parametrize("path", IMPOSSIBLE, ids=lambda path: ".".join(map(str, path)))
def test_impossible_values_are_refused(texts, path) -> None:
    document = json.loads(texts["exact"])
    for value in IMPOSSIBLE[path]:
        with pytest.raises(ValueError):
            Certificate.from_json(json.dumps(changed(document, path, value)))


def test_a_certificate_says_nothing_that_it_does_not_know(texts) -> None:
    document = json.loads(texts["exact"])
    places: list[tuple[Any, ...]] = [(), ("privacy",), ("fairness", 0), ("privacy", "event")]
    places += [("fairness", 0, "counts", 0), ("fairness", 0, "derivation")]
    for place in places:
        forged = copy.deepcopy(document)
        at(forged, place)["audited_by"] = 1
        with pytest.raises(ValueError, match="audited_by"):
            Certificate.from_json(json.dumps(forged))


def test_text_with_more_than_one_meaning_is_refused(texts) -> None:
    text = texts["exact"]
    bound = f'"bound": {json.loads(text)["fairness"][0]["bound"]!r}'
    assert text.count(bound) >= 1
    for other in ("NaN", "Infinity", "-Infinity", "1e999", '0.1, "bound": 0.2'):
        with pytest.raises(ValueError):
            Certificate.from_json(text.replace(bound, f'"bound": {other}', 1))
    with pytest.raises(ValueError):
        Certificate.from_json("[" * 10**6)


def test_the_sentence_is_that_of_the_figures(texts) -> None:
    document = json.loads(texts["exact"])
    with pytest.raises(ValueError, match="does not match the figures"):
        Certificate.from_json(json.dumps(document | {"sentence": "All is well."}))


def test_counts_of_more_rows_than_there_were_are_found(texts) -> None:
    document = json.loads(texts["exact"])
    for n_rows in (1, 10**6):
        read = Certificate.from_json(with_own_sentence(document | {"n_rows": n_rows}))
        assert any(item.startswith("n_rows") for item in read.examine().wrong)


def test_claims_that_share_an_error_are_as_many_as_the_bounds_allow_for(texts) -> None:
    document = json.loads(texts["difference"])
    document["fairness"] += copy.deepcopy(document["fairness"][:1]) * 3
    with pytest.raises(ValueError, match="derived"):
        Certificate.from_json(with_own_sentence(document))
    del document["derived"]  # a forger may leave it out
    read = Certificate.from_json(with_own_sentence(document))
    assert any("share the error probability" in item for item in read.examine().wrong)


# -- signatures -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def unnoticed(signed: str, key: Ed25519PrivateKey) -> list[tuple[Any, ...]]:
    """Leaves of a signed document that can be changed under its signature."""
    document = json.loads(signed)

    def differs(value: Any) -> Any:
        if isinstance(value, str):
            return value + " "
        return 0.125 if value != 0.125 else 0.25

    def accepted(forged: Any) -> bool:
        try:
            return check_signature(json.dumps(forged), key.public_key())
        except ValueError:
            return False

    return [
        path
        for path in leaves(document)
        if accepted(changed(document, path, differs(at(document, path))))
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_signature_covers_everything_that_a_certificate_holds(texts, key, name) -> None:
    signed = sign_certificate(texts[name], key)
    assert check_signature(signed, key.public_key())
    assert Certificate.from_json(signed) == Certificate.from_json(texts[name])
    assert unnoticed(signed, key) == []


def test_a_signature_of_a_part_would_be_noticed(texts, key, monkeypatch) -> None:
    def only_the_sentence(document: Any) -> bytes:
        return document["sentence"].encode()

    monkeypatch.setattr(signing, "_canonical", only_the_sentence)
    assert ("created",) in unnoticed(sign_certificate(texts["exact"], key), key)


def test_a_signature_breaks_with_every_added_or_missing_part(texts, key) -> None:
    document = json.loads(sign_certificate(texts["exact"], key))

    def valid(forged: Any) -> bool:
        try:
            return check_signature(json.dumps(forged), key.public_key())
        except ValueError:
            return False

    assert valid(document)
    assert not valid(document | {"note": "more"})
    assert not valid(document | {"fairness": document["fairness"][:1]})
    assert not valid(document | {"fairness": document["fairness"][::-1]})
    for name in document:
        assert not valid({k: v for k, v in document.items() if k != name}), name
    signature = document["signature"]
    for forged in (
        signature | {"value": signature["value"].upper()},
        signature | {"value": signature["value"] + "00"},
        signature | {"algorithm": "none"},
        signature | {"more": 1},
        {"value": signature["value"]},
        signature["value"],
        None,
    ):
        assert not valid(document | {"signature": forged})


def test_layout_is_no_content(texts, key) -> None:
    signed = sign_certificate(texts["exact"], key)
    document = json.loads(signed)
    for text in (
        json.dumps(document),
        json.dumps(document, indent=7, sort_keys=True),
        json.dumps(document, ensure_ascii=True),
        signed.encode("utf-8").decode("utf-8"),
    ):
        assert check_signature(text, key.public_key())


# Encodings of points P with 8 P = 0: y is 1, -1, 0 or one of two roots, or the same modulo p.
P = 2**255 - 19
Y_OF_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
SMALL_ORDER = [
    (y % 2**255 + sign * 2**255).to_bytes(32, "little")
    for y in (0, 1, P - 1, P, P + 1, Y_OF_ORDER_8, P - Y_OF_ORDER_8)
    for sign in (0, 1)
]


@pytest.mark.parametrize("raw", SMALL_ORDER, ids=lambda raw: raw.hex()[:4] + raw.hex()[-2:])
def test_a_key_under_which_one_signature_fits_everything_is_refused(raw, texts, tmp_path) -> None:
    weak = Ed25519PublicKey.from_public_bytes(raw)
    document = json.loads(next(iter(texts.values())))
    value = "01" + "00" * 63  # R is the neutral element, and s = 0
    document["signature"] = {
        "algorithm": "Ed25519", "key": signing.fingerprint(weak), "value": value
    }  # fmt: skip
    with pytest.raises(SignatureError, match="small order"):
        signing.check_signature(json.dumps(document), weak)
    pem = weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "weak.pem").write_bytes(pem)
    with pytest.raises(SignatureError, match="small order"):
        signing.load_public_key(tmp_path / "weak.pem")


def test_keys_of_issuers_are_accepted(tmp_path) -> None:
    for _ in range(20):
        signing._refuse_small_order(Ed25519PrivateKey.generate().public_key(), "It")


def test_a_signature_is_that_of_one_key(texts, key) -> None:
    signed = sign_certificate(texts["exact"], key)
    other = Ed25519PrivateKey.generate()
    assert not check_signature(signed, other.public_key())
    document = json.loads(signed)
    document["signature"]["key"] = signing.fingerprint(other.public_key())
    assert not check_signature(json.dumps(document), other.public_key())
    again = sign_certificate(signed, other)
    assert check_signature(again, other.public_key())
    assert not check_signature(again, key.public_key())


# -- the command ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts, model) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SKFAIRDP_KEY_PASSPHRASE", raising=False)
    (tmp_path / "c.json").write_text(texts["noisy"], encoding="utf-8")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    return tmp_path


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["verify", *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def forge(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(Path("c.json").read_text(encoding="utf-8"))
    change(document)
    Path(name).write_text(with_own_sentence(document), encoding="utf-8")


def test_verify_says_what_it_knows_and_no_more(folder, capsys) -> None:
    code, said = verified(capsys, "c.json", "m.pkl")
    assert code == 0
    assert "was issued" not in said
    for known in ("Recomputed: ", "bound on demographic_parity", "epsilon", "It is not signed."):
        assert known in said
    assert "It does not show who issued the certificate" in said


def test_verify_finds_the_published_forgery(folder, capsys) -> None:
    def lower(document: dict[str, Any]) -> None:
        claim = document["fairness"][0]
        claim["estimate"] = claim["bound"] = 0.011
        document["privacy"]["epsilon"] = 0.05
        document["privacy"]["per_group"] = None

    forge("f.json", lower)
    code, said = verified(capsys, "f.json", "m.pkl")
    assert code == 1
    assert said.startswith("No: f.json does not hold for m.pkl.")
    assert "bound on demographic_parity (deployed model) is stated as 0.011" in said.lower()
    assert "epsilon is stated as 0.05" in said.lower()
    forge("f.json", lambda document: document["fairness"][0].update(confidence_level=7.0))
    code, said = verified(capsys, "f.json", "m.pkl")
    assert code == 2
    assert "confidence_level=7.0 is not allowed" in said


def test_verify_names_what_it_could_not_recompute(folder, capsys, texts) -> None:
    Path("old.json").write_text(old_file(texts["noisy"]), encoding="utf-8")
    code, said = verified(capsys, "old.json", "m.pkl")
    assert code == 0
    assert "Not recomputed: bound on demographic_parity" in said
    code, said = verified(capsys, "old.json", "m.pkl", "--strict")
    assert code == 1
    assert "--strict was given" in said


class Trap:
    """Leaves a mark when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def test_no_model_is_loaded_before_figures_signature_and_file_hold(folder, capsys) -> None:
    assert main(["keygen", "--out", "k.pem"]) == 0
    capsys.readouterr()
    Path("m.pkl").write_bytes(pickle.dumps(Trap()))
    forge("wrong.json", lambda document: document["privacy"].update(delta=1e-12))
    forge("named.json", lambda document: document.update(model_file="0" * 64))
    for arguments in (
        ["wrong.json", "m.pkl"],
        ["c.json", "m.pkl", "--key", "k.public.pem"],
        ["named.json", "m.pkl"],
    ):
        code, said = verified(capsys, *arguments)
        assert code == 1, arguments
        assert not Path("sprung").exists()
    assert "is not the file that the certificate names" in said
    # The twin: with nothing in its way, it would have been.
    assert verified(capsys, "c.json", "m.pkl")[0] == 2
    assert Path("sprung").exists()


def test_signed_certificates_are_verified_by_key(folder, capsys) -> None:
    for name in ("k.pem", "other.pem"):
        assert main(["keygen", "--out", name]) == 0
    assert "fingerprint" in capsys.readouterr().out
    private = signing.load_private_key(Path("k.pem"))
    text = sign_certificate(Path("c.json").read_text(encoding="utf-8"), private)
    Path("s.json").write_text(text, encoding="utf-8")
    code, said = verified(capsys, "s.json", "m.pkl", "--key", "k.public.pem")
    assert code == 0
    assert "Signed with k.public.pem. A valid signature shows that the holder" in said
    code, said = verified(capsys, "s.json", "m.pkl")
    assert code == 0
    assert "Signed, but not checked: give --key FILE." in said
    code, said = verified(capsys, "s.json", "m.pkl", "--key", "other.public.pem")
    assert code == 1
    assert "The signature is not that of other.public.pem on this content" in said
    code, said = verified(capsys, "c.json", "m.pkl", "--key", "k.public.pem")
    assert code == 1
    assert "not signed" in said
    Path("s.json").write_text(text.replace("FunctionalMechanism", "Functional"), encoding="utf-8")
    assert verified(capsys, "s.json", "m.pkl", "--key", "k.public.pem")[0] == 1
    for wrong, message in (
        ("k.pem", "holds a private key; give the public one"),
        ("m.pkl", "holds no public key in PEM form"),
        ("nothing.pem", "cannot be read"),
    ):
        code, said = verified(capsys, "s.json", "m.pkl", "--key", wrong)
        assert code == 2
        assert message in said


def test_keys_are_for_their_owner_and_never_overwritten(folder, capsys, monkeypatch) -> None:
    assert main(["keygen", "--out", "k.pem"]) == 0
    assert stat.S_IMODE(Path("k.pem").stat().st_mode) == 0o600
    before = Path("k.pem").read_bytes(), Path("k.public.pem").read_bytes()
    assert main(["keygen", "--out", "k.pem"]) == 2
    assert "no key is overwritten" in capsys.readouterr().err
    Path("k.public.pem").rename("kept.pem")
    assert main(["keygen", "--out", "k.pem"]) == 2  # nor is half of a pair left behind
    assert not Path("k.public.pem").exists()
    assert (Path("k.pem").read_bytes(), Path("kept.pem").read_bytes()) == before

    assert main(["keygen", "--out", "locked.pem", "--passphrase"]) == 2
    assert "set SKFAIRDP_KEY_PASSPHRASE" in capsys.readouterr().err
    monkeypatch.setenv("SKFAIRDP_KEY_PASSPHRASE", "correct horse")
    assert main(["keygen", "--out", "locked.pem", "--passphrase"]) == 0
    assert b"ENCRYPTED" in Path("locked.pem").read_bytes()
    assert signing.load_private_key(Path("locked.pem"), b"correct horse")
    for wrong in (None, b"incorrect horse"):
        with pytest.raises(signing.SignatureError, match="passphrase"):
            signing.load_private_key(Path("locked.pem"), wrong)


def test_without_cryptography_signing_says_what_to_install(folder, capsys, monkeypatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["keygen", "--out", "k.pem"]) == 2
    assert "pip install 'skfairdp[sign]'" in capsys.readouterr().err
    code, _ = verified(capsys, "c.json", "m.pkl")
    assert code == 0  # all else works without it


def test_bounds_that_are_recomputed_are_those_that_were_issued(texts) -> None:
    """The recomputation is a second way through the same formulas, on the stored counts."""
    for text in texts.values():
        for claim in Certificate.from_json(text).fairness:
            assert math.isclose(derivation.recomputed_bound(claim), claim.bound, abs_tol=1e-9)


NOTHING: dict[str, Any] = {"event": {"kind": "NoOpDpEvent"}, "exposures": [], "per_group": None}
STRONGER: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "relation": (lambda d: d["privacy"].update(adjacency="add-remove"), "promise is about"),
    "delta": (lambda d: d["privacy"].update(delta=1e-9, **NOTHING), "promises ε"),
    "epsilon": (lambda d: d["privacy"].update(epsilon=0.01, **NOTHING), "promises ε"),
    "name": (lambda d: d.update(model_name="Another"), "and not Another"),
}


@pytest.mark.parametrize("name", STRONGER)
def test_no_promise_may_be_stronger_than_the_one_that_the_model_carries(
    folder, capsys, model, name
) -> None:
    change, said = STRONGER[name]
    Path("c.json").write_text(certify(model).to_json(), encoding="utf-8")
    forge("f.json", change)
    forged = Certificate.from_json(Path("f.json").read_text(encoding="utf-8"))
    assert forged.examine().holds  # its own figures do not give it away
    assert not forged.verify(model)
    code, shown = verified(capsys, "f.json", "m.pkl")
    assert code == 1
    assert said in shown


def test_a_weaker_promise_than_the_models_stands(model) -> None:
    own = certify(model)
    assert own.privacy is not None
    weaker = dataclasses.replace(own.privacy, epsilon=2 * own.privacy.epsilon)
    assert dataclasses.replace(own, privacy=weaker).verify(model)
    void = dataclasses.replace(own.privacy, epsilon=float("inf"))
    assert dataclasses.replace(own, privacy=void).verify(model)


def test_a_certificate_says_which_outcome_is_the_positive_one() -> None:
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(200, 1)), rng.integers(2, size=200)
    y = np.where(rows[:, 0] > 0, "approve", "deny")
    around = LogisticRegression().fit(rows, y)
    certificate = certify(
        around, rows, y, sensitive_features=groups, notion="equal_opportunity", holdout="public"
    )
    (claim,) = certificate.fairness
    assert {count.stratum for count in claim.counts} == {"label deny"}
    assert "The positive outcome is 'deny', and the other one 'approve'." in claim.assumptions
