"""``report``: from a table to a filed report."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from skfairdp import Certificate, FairPathClassifier, PrivacyLedger, certifiable, certify
from skfairdp.assumptions import GROUPS_SEEN, HELD_OUT_BY_DRAW, PUBLIC_BOUNDS
from skfairdp.base import PrivateEstimator
from skfairdp.certificate.signing import sign_certificate
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import check_outputs, read_document, read_rows, write_whole
from skfairdp.command_line.interruption import Aftermath
from skfairdp.command_line.keys import private_key
from skfairdp.command_line.mechanisms import ENOUGH_FOR_TABLES, MECHANISMS, estimator_of
from skfairdp.command_line.schema import schema_from
from skfairdp.command_line.table import People, people_of
from skfairdp.exceptions import PlanError
from skfairdp.figures import as_given
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PrivateTableEncoder, PublicEncoder, PublicScaler
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.totals import covered
from skfairdp.privacy.noise import NoiseSource

# What a path is printed at.
TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from skfairdp.privacy.ledger.entry import Entry


def report(arguments: argparse.Namespace) -> int:
    """Train a model, certify it on rows held out, write the page.

    Result: 0 if the certificate shows what was asked for, 1 if it doesn't.
    """
    arguments.notion = arguments.notion or ["demographic_parity"]
    asked = arguments.mechanism
    arguments.mechanism = asked or MECHANISMS[len(arguments.notion) > 1]
    ledger = _ledger(arguments)
    estimator_of(arguments, ledger)  # wrong options show before a file is read
    for option, names in (("--sensitive", arguments.sensitive), ("--notion", arguments.notion)):
        _check_once(option, names)
    key = _key(arguments)
    outputs = ("out", "certificate", "model", "card")
    check_outputs(
        {f"--{name}": getattr(arguments, name) for name in outputs},
        {
            "data": arguments.data,
            "--schema": arguments.schema,
            "--ledger": arguments.ledger,
            "--sign": arguments.sign,
        },
    )
    declared = None if arguments.schema is None else schema_from(read_document(arguments.schema))
    _say(arguments, f"Reading {arguments.data}")
    public = None if arguments.bounds_are_public else (arguments.target, *arguments.sensitive)
    people = people_of(
        read_rows(arguments.data, inferred=public),
        target=arguments.target,
        sensitive=arguments.sensitive,
        positive=arguments.positive,
        schema=declared,
        bounds_are_public=arguments.bounds_are_public,
        dropped=arguments.drop,
    )
    if asked is None and len(people.y) * arguments.epsilon < ENOUGH_FOR_TABLES:
        arguments.mechanism = "rates"
    noise = NoiseSource()
    # Each row by a draw of its own: who is held out then depends on no other row.
    held = noise.sampling.random(len(people.y)) < arguments.held_out
    _check_parts(people, held)
    _tell_what_can_be_shown(arguments, people, held)
    after = Aftermath(ledger, f"ε = {as_given(arguments.epsilon)}, δ = {as_given(arguments.delta)}")
    try:
        return _charged_run(arguments, people, held, noise, ledger, key, after)
    except BaseException as error:
        for line in after.lines():
            error.add_note(line)
        raise


def _charged_run(
    arguments: argparse.Namespace,
    people: People,
    held: np.ndarray,
    noise: NoiseSource,
    ledger: PrivacyLedger | None,
    key: Ed25519PrivateKey | None,
    after: Aftermath,
) -> int:
    """Train, certify, write: first what cannot be made again without another charge."""
    # A row is trained on or held out, by a draw of its own: protecting the latter at the same
    # epsilon adds nothing to the cost of a record. So the run is one charge. Beside public rows
    # there is nothing but the training, which charges itself.
    count_epsilon = None if arguments.held_out_is_public else arguments.epsilon
    inner = ledger if count_epsilon is None else None
    charge = nullcontext() if ledger is None or ledger is inner else _one_charge(arguments, ledger)
    after.begin()
    with charge as entry:
        _say(arguments, f"Training {arguments.mechanism}")
        model = _trained(people.part(~held), estimator_of(arguments, inner))
        for step in model:  # the path of the ledger does not travel with the model
            if isinstance(step, PrivateEstimator):
                step.set_params(ledger=None)
        written = pickle.dumps(model)
        _write(arguments, after, arguments.model, lambda: written)
        _say(arguments, "Certifying on the rows held out")
        certificate = _certified(
            model,
            people.part(held),
            arguments,
            count_epsilon=count_epsilon,
            count_noise=noise,
            ledger=inner,
            certificate_index=entry and ledger and _index(entry, ledger),
        )
        _check_within(certificate.privacy, arguments)
    if arguments.model is not None:
        digest = hashlib.sha256(written).hexdigest()
        certificate = dataclasses.replace(certificate, model_file=digest)
    if arguments.monitor is not None:
        certificate = certificate.with_monitor(arguments.monitor)
    _write(arguments, after, arguments.certificate, lambda: _signed(certificate, key))
    _write_pages(arguments, after, certificate, ledger)
    code = _answer(arguments, certificate)
    if isinstance(model[-1], FairPathClassifier):
        print(_other_tolerances(model[-1]))
    return code


def _one_charge(arguments: argparse.Namespace, ledger: PrivacyLedger) -> Any:
    whole = PrivacyGuarantee(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        adjacency="zero-out",
        accountant="the larger of the training and the counts of held-out rows",
        assumptions=(HELD_OUT_BY_DRAW, GROUPS_SEEN),
    )
    name = type(estimator_of(arguments, None)).__name__
    return ledger.charge(whole, activity="fit", estimator=name)


def _index(entry: Entry, ledger: PrivacyLedger) -> int:
    """Which certificate on these people this is: each such run, and each by itself, made one."""
    return entry.ordinal + sum(other.activity == "certify" for other in ledger.entries())


def _check_within(spent: PrivacyGuarantee | None, arguments: argparse.Namespace) -> None:
    """Stop where a run spent what was not charged, which no mechanism of the command does."""
    (told,) = covered([spent or PrivacyGuarantee.void()], "zero-out", "record")
    # Refusals looked at groups: no promise for removed records may leave the command.
    removed = spent is not None and spent.adjacency != "zero-out"
    if removed or not told.satisfies(arguments.epsilon, arguments.delta):
        raise PlanError(
            f"The run spent ε = {as_given(told.epsilon)}, δ = {as_given(told.delta)} under "
            f"{'another relation' if removed else 'zero-out'}, and was charged ε = "
            f"{as_given(arguments.epsilon)}, δ = {as_given(arguments.delta)} under zero-out."
        )


def _key(arguments: argparse.Namespace) -> Ed25519PrivateKey | None:
    if arguments.sign is None:
        return None
    if arguments.certificate is None:
        raise CommandError("--sign signs the certificate; say by --certificate where it goes.")
    return private_key(arguments.sign)


def _signed(certificate: Certificate, key: Ed25519PrivateKey | None) -> str:
    text = certificate.to_json()
    return text if key is None else sign_certificate(text, key)


def _check_once(option: str, names: list[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise CommandError(f"{option} names {twice[0]!r} twice; give each once.")


def _say(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        print(text, file=sys.stderr, flush=True)


def _check_parts(people: People, held: np.ndarray) -> None:
    """Refuse, before anything is spent, a draw that leaves nothing to train or certify on."""
    groups = people.groups
    found = [len(groups[part].drop_duplicates()) for part in (held, ~held)]
    if min(found) < len(groups.drop_duplicates()):
        raise CommandError(
            "The draw of --held-out left a group without rows to train or to certify on; choose a "
            "share that leaves some of every group in both parts, such as 0.3."
        )


def _tell_what_can_be_shown(
    arguments: argparse.Namespace, people: People, held: np.ndarray
) -> None:
    """Say, before anything is spent, whether public numbers of rows can show the tolerance."""
    if not arguments.held_out_is_public:
        return  # the noisy counts will tell
    groups = pd.DataFrame(people.groups[held])
    sizes = groups.groupby(list(groups), observed=True).size()
    found = certifiable(
        {str(name): int(n) for name, n in sizes.items()},
        arguments.tolerance,
        confidence_level=arguments.confidence,
        n_claims=len(arguments.notion),
    )
    if not found.possible:
        print(f"Before anything is spent: {found}", file=sys.stderr, flush=True)


def _ledger(arguments: argparse.Namespace) -> PrivacyLedger | None:
    if arguments.ledger is None:
        if arguments.budget is not None or arguments.data_set is not None:
            raise CommandError("--budget and --data-set are about a ledger; name it by --ledger.")
        return None
    name = arguments.data.stem if arguments.data_set is None else arguments.data_set
    return PrivacyLedger(arguments.ledger, name, budget=arguments.budget)


def _trained(people: People, estimator: Any) -> Pipeline:
    schema = people.schema
    if schema is None:
        table = PrivateTableEncoder(encoding="onehot", ledger=estimator.ledger)
        return fit_within(
            Pipeline([("table", table), ("classify", estimator)]),
            people.X,
            people.y,
            epsilon=estimator.epsilon,
            sensitive_features=people.groups,
        )
    scaler = PublicScaler(schema.bounds, log_columns=schema.log, fill=schema.fill or None)
    encoder = PublicEncoder(schema.categories)
    model = Pipeline([("scale", scaler), ("encode", encoder), ("classify", estimator)])
    fitted: Pipeline = model.fit(people.X, people.y, classify__sensitive_features=people.groups)
    return fitted


def _certified(
    model: Pipeline,
    people: People,
    arguments: argparse.Namespace,
    *,
    count_epsilon: float | None,
    **asked: Any,
) -> Certificate:
    certificate = certify(
        model,
        people.X,
        people.y,
        sensitive_features=people.groups,
        notion=arguments.notion,
        confidence_level=arguments.confidence,
        count_epsilon=count_epsilon,
        holdout="public" if count_epsilon is None else "per_record",
        **asked,
    )
    claims = tuple(
        dataclasses.replace(claim, assumptions=(*claim.assumptions, people.coding))
        for claim in certificate.fairness
    )
    certificate = dataclasses.replace(certificate, fairness=claims)
    if certificate.privacy is None:
        return certificate
    texts = (GROUPS_SEEN, *[PUBLIC_BOUNDS] * arguments.bounds_are_public)
    privacy = dataclasses.replace(
        certificate.privacy, assumptions=(*certificate.privacy.assumptions, *texts)
    )
    return dataclasses.replace(certificate, privacy=privacy)


def _write_pages(
    arguments: argparse.Namespace,
    after: Aftermath,
    certificate: Certificate,
    ledger: PrivacyLedger | None,
) -> None:
    asked = {"epsilon": arguments.epsilon, "tolerance": arguments.tolerance, "ledger": ledger}
    title = f"Certificate of privacy and fairness: {arguments.target}"
    _write(
        arguments, after, arguments.card, lambda: certificate.to_model_card(title=title, **asked)
    )
    _write(arguments, after, arguments.out, lambda: certificate.to_html(title=title, **asked))


def _write(
    arguments: argparse.Namespace,
    after: Aftermath,
    path: Path | None,
    content: Callable[[], str | bytes],
) -> None:
    if path is None:
        return
    write_whole(path, content())
    after.wrote(path)
    _say(arguments, f"Wrote {path}")


def _other_tolerances(model: FairPathClassifier) -> str:
    """Say what other tolerances would give, which costs these people nothing more."""
    path = model.path().drop_duplicates("tolerance", keep="last")
    reached = [path[path["tolerance"] <= t].tail(1).assign(tolerance=t) for t in TOLERANCES]
    columns = ["tolerance", "gap", "gap_std", "accuracy", "accuracy_std"]
    found = pd.concat(reached)[columns]
    if found.empty:
        return f"No tolerance of up to {TOLERANCES[-1]} can be kept to: the rows are too few."
    table = found.to_string(index=False, float_format="{:.3f}".format)
    return (
        "The same model at other tolerances, at no further privacy loss (estimated from its own "
        f"tables, about the rows it was trained on; not certified):\n{table}"
    )


def _answer(arguments: argparse.Namespace, certificate: Certificate) -> int:
    print(certificate.sentence)
    kept = certificate.satisfies(arguments.epsilon, arguments.tolerance)
    figures = f"ε ≤ {as_given(arguments.epsilon)} and differences ≤ {as_given(arguments.tolerance)}"
    print(f"Asked for: {figures}. {'Shown.' if kept else 'NOT shown by this certificate.'}")
    if not kept and arguments.ledger is not None:
        print("Another run is another release: the ledger adds it to what these people have spent.")
    if certificate.nearly_constant:
        print("NEARLY CONSTANT: almost all decisions are alike, or no better than a constant one.")
    return 0 if kept and not certificate.nearly_constant else 1
