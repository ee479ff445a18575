"""Recomputation of a certificate's claims from the figures that it stores."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.evaluation import claims_of_mechanism
from skfairdp.certificate.facts import (
    AS_PUBLIC_ROWS,
    ASSUMED,
    BOUGHT,
    COUNTED,
    PUBLIC,
    UNKNOWN,
    WITH_NOISE,
    Fact,
    known_facts,
)
from skfairdp.certificate.group_rates import LEVEL
from skfairdp.certificate.outcomes import Outcomes
from skfairdp.certificate.released_events import uncounted_tables, unlike_training
from skfairdp.fairness.derivation import (
    Derivation,
    recomputed_bound,
    recomputed_estimate,
    recomputed_intervals,
)
from skfairdp.fairness.guarantee import FairnessGuarantee, group_text
from skfairdp.fairness.kinds import KINDS, BoundKind
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import AVERAGED, DEPLOYED, FROM_ROWS, SCOPES
from skfairdp.foundation.figures import as_given
from skfairdp.privacy.accounting.exposure import event_cost, recomputed_epsilons
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import PROTECTS, accounted
from skfairdp.receipts.unwrap import Deployed, charges_privacy

DIGEST_SHOWS = (
    "A matching digest shows that the certificate names this model in this state. It does not show "
    "who issued the certificate, or that its counts and events are those of this model: anyone "
    "who can write the file can write both."
)
# Bounds and estimates are computed alike everywhere but for last bits, and for a root that is
# found to 1e-7.
BOUND_TOLERANCE = 1e-6
# Bounds that are searched for are found to this part of themselves, on the safe side; another
# version may stop elsewhere within it.
_SEARCHED = 1e-4
# Accountants of other versions place their grids otherwise.
EPSILON_TOLERANCE = 1e-4
# Facts of the model itself, and those that somebody declares.
_OF_MODEL = ("features", "persons trained on", "reason codes", "rows trained on")
_POSITIVE = "positive outcome"
# How rows were counted by `certify` while it did not require that somebody calls them public.
_UNSAID = "without noise; nobody said that they are public", ASSUMED
_FACTS = (*_OF_MODEL, _POSITIVE, "target column", "group columns", "alternatives", COUNTED, UNKNOWN)
# A promise about removed records is one about blanked ones, at the same cost.
_IMPLIED = ("add-remove", "zero-out")
# Stands for a class label in the names of rates.
_ANY = re.compile("SOMELABEL[0-3]")
_CLASSES = tuple(f"SOMELABEL{at}" for at in range(4))


@dataclass(frozen=True)
class Examination:
    """Result of recomputing a certificate."""

    recomputed: tuple[str, ...]  # figures that follow from what is stored
    missing: tuple[str, ...]  # those that were not recomputed, with the reason
    wrong: tuple[str, ...]  # those that do not follow, or contradict each other

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong; something may still not have been recomputed."""
        return not self.wrong


RECOMPUTED, MISSING, WRONG = "recomputed", "missing", "wrong"
Finding = tuple[str, str]
Findings = Iterator[Finding]


def examine(certificate: Claims) -> Examination:
    """Recompute every figure of a certificate that follows from its counts or its events."""
    found: list[Finding] = []
    if certificate.edited:
        found.append((WRONG, "the contents of the file are not those of its digest: it was edited"))
    for claim in certificate.fairness:
        found += [*_of_claim(claim), *_of_rows(claim, certificate.n_rows)]
    known, n_rows = certificate.accuracy, certificate.n_rows
    if known is not None and not known.noisy and n_rows is not None and known.rows != n_rows:
        found.append((WRONG, f"n_rows is stated as {n_rows}, but accuracy counts {known.rows:g}"))
    found += [*_of_outcomes(certificate), *_of_scores(certificate)]
    errors = certificate.errors
    if errors is not None and errors.rows != n_rows:
        found.append((WRONG, f"n_rows is stated as {n_rows}, but errors are of {errors.rows} rows"))
    found += _shared_errors(certificate.fairness)
    found += _of_neighbours(certificate.fairness)
    noisy = {count.noisy for claim in certificate.fairness for count in claim.counts}
    if known is not None and noisy and known.noisy not in noisy:
        found.append((WRONG, f"noise in accuracy is stated as {known.noisy}, unlike in the counts"))
    unknown = [fact.name for fact in certificate.facts if fact.name not in _FACTS]
    found += [(WRONG, f"certificates state no fact {name!r}") for name in unknown]
    found += _of_counting(certificate, noisy, _prices(certificate).values())
    if certificate.privacy is not None and not certificate.privacy.is_void:
        found += _of_privacy(certificate.privacy, certificate)
    return Examination(
        **{kind: tuple(t for k, t in found if k == kind) for kind in (RECOMPUTED, MISSING, WRONG)}
    )


def _of_counting(certificate: Claims, noisy: set[bool], prices: Iterable[float]) -> Findings:
    """Compare how held-out rows are said to be counted with what can be, and with the counts.

    `prices`: of the noisy counts; those of all claims are one table.
    """
    spent = f"{WITH_NOISE}{as_given(math.fsum({*prices}))}"
    for fact in certificate.facts:
        if fact.name != COUNTED:
            continue
        with_noise = fact.source == BOUGHT and fact.value.startswith(WITH_NOISE)
        known = with_noise or (fact.value, fact.source) in (AS_PUBLIC_ROWS, _UNSAID)
        other = with_noise and fact.value != spent
        if not known or (noisy and (other or with_noise not in noisy)):
            yield WRONG, f"held-out rows are said to be counted {fact}, unlike in the counts"


def _of_outcomes(certificate: Claims) -> Iterator[Finding]:
    """Compare the counts by group, label and answer with those of the claims and the accuracy."""
    counted, accuracy = certificate.outcomes, certificate.accuracy
    if counted is None:
        return
    for claim in certificate.fairness:
        if (claim.notion, claim.scope) != ("demographic_parity", DEPLOYED):
            continue
        own = {
            group: (sum(row[1] for row in rows), sum(map(sum, rows)))
            for group, rows in _by_group(counted)
        }
        stated = {count.group: (count.successes, count.trials) for count in claim.counts}
        if stated.keys() != own.keys() or not all(
            np.allclose(own[group], stated[group], rtol=0.0, atol=1e-6) for group in own
        ):
            yield WRONG, "outcomes by group are not those of the counts of demographic_parity"
            return
    rows = counted.total(label_known=True)
    if accuracy is not None and abs(accuracy.rows - rows) > 1e-6 * max(1.0, abs(rows)):
        yield WRONG, f"outcomes count {rows:g} labelled rows, and accuracy {accuracy.rows:g}"
        return
    yield RECOMPUTED, "rates of outcomes by group"


def _of_scores(certificate: Claims) -> Iterator[Finding]:
    """Compare the counts by score with those by answer, where neither carries noise."""
    scores, counted = certificate.scores, certificate.outcomes
    if scores is None:
        return
    if counted is None or counted.groups != scores.groups:
        yield WRONG, "scores are of other groups than outcomes"
        return
    if (counted.count_epsilon is None) is not (scores.count_epsilon is None):
        yield WRONG, "noise is stated of either scores or outcomes, and not of both"
        return
    one, other = (np.sum(each.counts, axis=-1) for each in (counted, scores))
    if scores.count_epsilon is None and not np.array_equal(one, other):
        yield WRONG, "scores count other rows than outcomes"
        return
    yield RECOMPUTED, "calibration and scoring rates by group"


def _by_group(counted: Outcomes) -> Iterator[tuple[Hashable, tuple[tuple[float, float], ...]]]:
    return zip(counted.groups, counted.counts, strict=True)


def contradictions(certificate: Claims, deployed: Deployed) -> Iterator[str]:
    """List the differences between a certificate and the model that its digest names.

    Its name, or a promise about training records that is stronger than the model's own; what other
    steps, counts and a search cost on top is not compared.
    """
    python = certificate.library_versions.get("python", "")
    if not deployed.matches(certificate.model_digest, python):
        return
    known = {fact.name: fact for fact in known_facts(deployed, None, None, None)}
    for fact in certificate.facts:
        if fact.name in _OF_MODEL and fact != known.get(fact.name):
            yield f"{fact.name} of the model are {known.get(fact.name)}, and not {fact}"
        elif fact.name == _POSITIVE:
            yield from _other_outcome(fact, deployed)
    stated_names = {fact.name for fact in certificate.facts}
    for name in (*_OF_MODEL, _POSITIVE) if stated_names else ():
        if name in known and name not in stated_names:
            yield f"{name} of the model are {known[name]}, which the certificate leaves out"
    yield from _other_claims(certificate.fairness, deployed)
    if certificate.model_name not in ("", deployed.name):
        yield f"the model is {deployed.name}, and not {certificate.model_name}"
    trained, stated = deployed.trained, certificate.privacy
    if stated is None or stated.is_void or not charges_privacy(trained.final):
        return
    # Of releases every call costs, so that a later state of the same model has spent more.
    if trained.release[1] is not None:
        return
    own = trained.final.privacy_
    if own is None or own.is_void:
        yield "the model promises nothing about its training records"
        return
    labels = set(own.per_group or ())
    others = [group for group in stated.per_group or () if labels and group not in labels]
    if others:
        named = ", ".join(map(group_text, others))
        yield f"the model itself promises nothing to records of {named}"
    if stated.protects != own.protects:
        yield f"the model protects {PROTECTS[own.protects]}, and not {PROTECTS[stated.protects]}"
    elif stated.adjacency != own.adjacency and (own.adjacency, stated.adjacency) != _IMPLIED:
        yield f"the model's promise is about {own.adjacency!r}, and not {stated.adjacency!r}"
    elif stated.delta < own.delta or (
        stated.delta == own.delta and stated.epsilon < own.epsilon * (1.0 - EPSILON_TOLERANCE)
    ):
        yield (
            f"the model promises ε = {_shown(own.epsilon)} at δ = {as_given(own.delta)}, less than "
            f"ε = {_shown(stated.epsilon)} at δ = {as_given(stated.delta)}"
        )
    if charges_privacy(trained.charged) and trained.charged.privacy_ is not None:
        parts = [step.privacy_ for _, step in trained.leaves() if charges_privacy(step)]
        all_known = all(part is not None and part.event is not None for part in parts)
        if all_known and stated.event is None and _has_a_total(trained.charged.privacy_):
            yield "no events are stated, though those of the model's training are known"
        yield from unlike_training(stated, trained.charged.privacy_, others=bool(parts))


def _has_a_total(privacy: PrivacyGuarantee) -> bool:
    """Whether the total of this and other releases with events has events, too."""
    return privacy.event is not None and accounted(privacy.adjacency) is not None


def _other_outcome(fact: Fact, deployed: Deployed) -> Iterator[str]:
    """Compare the positive outcome with the classes of the model; it may name the target first."""
    classes = [str(label) for label in getattr(deployed.final, "classes_", ())]
    possible = classes[1:] if fact.source == PUBLIC else classes
    named = any(fact.value == label or fact.value.endswith(f" = {label}") for label in possible)
    if not named:
        yield f"the positive outcome of the model is one of {possible}, and not {fact}"


def _other_claims(claims: Sequence[FairnessGuarantee], deployed: Deployed) -> Iterator[str]:
    """Claims without held-out rows that the mechanism of the model does not make."""
    of_mechanism = [claim for claim in claims if claim.scope not in FROM_ROWS]
    names = dict.fromkeys(claim.notion for claim in of_mechanism)
    made = claims_of_mechanism(deployed, [NOTIONS[n] for n in names if n in NOTIONS], False)

    def alike(claim: FairnessGuarantee, other: FairnessGuarantee) -> bool:
        same = ("notion", "scope", "groups", "counts", "estimate", "derivation", "words")
        return claim.bound >= other.bound - BOUND_TOLERANCE and all(
            getattr(claim, name) == getattr(other, name) for name in same
        )

    for claim in of_mechanism:
        if claim.derivation is not None and not any(alike(claim, other) for other in made):
            yield f"the model does not bound {claim.notion} ({claim.scope}) in this way"


def _of_neighbours(claims: Sequence[FairnessGuarantee]) -> Findings:
    """Compare claims with each other.

    Bounds on averages over draws come with counted answers to the same rows. Where
    answers are counted at all, so is every other claim, of the same notion. None is made twice.
    """
    counted = [claim for claim in claims if claim.scope == DEPLOYED and claim.counts]

    def rows(claim: FairnessGuarantee) -> list[tuple[object, ...]]:
        return [(count.group, count.stratum, count.trials) for count in claim.counts]

    notions = {claim.notion for claim in counted}
    seen = [(c.notion, c.scope, c.derivation.kind) for c in claims if c.derivation is not None]
    for notion, scope, kind in sorted({one for one in seen if seen.count(one) > 1}):
        yield WRONG, f"{notion} ({scope}) is bounded twice by one method, {kind}"
    for claim in claims:
        if notions and claim.notion not in notions:
            others = f"but answers were counted for {sorted(notions)}"
            yield WRONG, f"{claim.notion} ({claim.scope}) is stated, {others}"
        # Without a derivation nothing was recomputed, which is said.
        if claim.scope != AVERAGED or claim.derivation is None:
            continue
        if not any(
            (c.notion, c.groups) == (claim.notion, claim.groups)
            and rows(claim) in ([], rows(c))  # of models of the groups it stores other figures
            for c in counted
        ):
            what = f"{claim.notion} ({claim.scope})"
            yield WRONG, f"{what} is of other rows than the answers of the model"


def _rates_of(claim: FairnessGuarantee) -> bool:
    """Whether the rates that a claim counts can be those of its notion, by their names."""
    names = list(dict.fromkeys(count.stratum for count in claim.counts))
    if claim.scope not in (DEPLOYED, AVERAGED) or claim.notion not in NOTIONS or not names:
        return True
    # Two classes and four, as the names are built from them.
    for classes in (_CLASSES[:2], _CLASSES):
        patterns = [
            _ANY.sub(".*", re.escape(stratum.name))
            for stratum in NOTIONS[claim.notion].strata(classes)
        ]
        if len(classes) == 2:
            if len(names) == len(patterns) and all(map(_whole, patterns, names)):
                return True
        elif len(names) > 2 and all(_whole(patterns[0], name) for name in names):
            return True
    return claim.notion == "accuracy_parity" and names == [""]


def _whole(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None


def _compared(what: str, stated: float | None, found: float | None, share: float = 0.0) -> Finding:
    if stated is None or found is None:
        same = stated is found
    else:
        same = abs(stated - found) <= BOUND_TOLERANCE + share * found
    if same:
        return RECOMPUTED, what
    return WRONG, f"{what} is stated as {_shown(stated)}, but {_shown(found)} follows"


def _of_claim(claim: FairnessGuarantee) -> Findings:
    name = f"{claim.notion} ({claim.scope})"
    if not _rates_of(claim):
        yield WRONG, f"{name} counts rates that are not those of its notion"
    try:
        if claim.counts or _counts_in_inputs(claim):
            yield _compared(f"estimate of {name}", claim.estimate, recomputed_estimate(claim))
        elif claim.estimate is not None:
            yield MISSING, f"estimate of {name}: it stores no counts"
        if claim.derivation is None:
            yield _bound_without_source(name, claim)
        else:
            share = _SEARCHED if KINDS[claim.derivation.kind].searched else 0.0
            yield _compared(f"bound on {name}", claim.bound, recomputed_bound(claim), share)
        yield from _intervals(name, claim)
    except (ValueError, ArithmeticError, TypeError) as error:
        yield WRONG, f"{name} cannot follow from what it stores: {error}"


def _counts_in_inputs(claim: FairnessGuarantee) -> bool:
    return claim.derivation is not None and KINDS[claim.derivation.kind].counts_in_inputs


def _bound_without_source(name: str, claim: FairnessGuarantee) -> Finding:
    # Certificates of earlier versions say only this much of where a bound came from.
    kind = next((n for n, kind in KINDS.items() if _shows_by_counts(kind, claim)), None)
    if claim.counts and kind is not None and claim.confidence_level is not None:
        # Whatever else shared the error probability, it can only have widened the bound.
        least = recomputed_bound(claim, Derivation.of(kind, claims=1))
        if claim.bound < least - BOUND_TOLERANCE:
            stated = f"bound on {name} is stated as {_shown(claim.bound)}"
            return WRONG, f"{stated}, but at least {_shown(least)} follows"
    return MISSING, f"bound on {name}: the file does not say what it follows from"


def _shows_by_counts(kind: BoundKind, claim: FairnessGuarantee) -> bool:
    """Whether a claim names this kind's method, and stores all that its bound follows from."""
    return kind.inputs == ("claims",) and claim.method in kind.methods.values()


def _intervals(name: str, claim: FairnessGuarantee) -> Findings:
    if all(count.low is None for count in claim.counts):
        return
    found = recomputed_intervals(claim, LEVEL)
    if found is None:
        yield MISSING, f"intervals of {name}: the file does not say what they follow from"
        return
    for count, low, high in zip(claim.counts, *found, strict=True):
        where = f"interval of {group_text(count.group)} in {name}"
        yield _compared(f"lower end of the {where}", count.low, float(low))
        yield _compared(f"upper end of the {where}", count.high, float(high))


def _of_rows(claim: FairnessGuarantee, n_rows: int | None) -> Findings:
    """Compare the number of rows with the counts, which are of all rows or of a part."""
    if _counts_in_inputs(claim) and n_rows is not None:
        assert claim.derivation is not None
        found = sum(map(sum, claim.derivation.values["counts"]))
        if found != n_rows:
            yield WRONG, f"n_rows is stated as {n_rows}, but {claim.notion} counts {found} rows"
    counted = claim.confidence_level is not None and claim.counts
    if not counted or n_rows is None or any(count.noisy for count in claim.counts):
        return
    notion = NOTIONS.get(claim.notion)  # None for a user's own notion: its counts are not stored
    every = notion is not None and all(
        (stratum.successes | stratum.failures).all() for stratum in notion.strata((0, 1))
    )
    for stratum in dict.fromkeys(count.stratum for count in claim.counts):
        total = sum(count.trials for count in claim.counts if count.stratum == stratum)
        if total > n_rows + 0.5 or (every and total < n_rows - 0.5):
            yield WRONG, f"n_rows is stated as {n_rows}, but {claim.notion} counts {total:g} rows"
            return


def _shared_errors(claims: Sequence[FairnessGuarantee]) -> Findings:
    """Claims that say they share the error probability with fewer claims than there are."""
    for scope in SCOPES:  # each has its own error probability
        of_it = [claim.derivation for claim in claims if claim.scope == scope]
        named = [how.values.get("claims") for how in of_it if how is not None]
        sharing = [number for number in named if number is not None]
        if sharing and min(sharing) < len(sharing):
            shared = f"{len(sharing)} claims ({scope}) share the error probability"
            yield WRONG, f"{shared}, but a bound allows for {min(sharing)}"


def _of_privacy(privacy: PrivacyGuarantee, claims: Claims) -> Findings:
    named = {group for one in privacy.exposures or () for group in one.groups or ()}
    apart = named.symmetric_difference(privacy.per_group or ()) if named else ()
    if privacy.per_group and apart:
        texts = ", ".join(sorted(map(group_text, apart)))
        yield WRONG, f"epsilon is stated for other groups than events are: {texts}"
    try:
        found = recomputed_epsilons(privacy)
    except (ValueError, ArithmeticError, TypeError) as error:
        yield MISSING, f"epsilon: {error}"
    else:
        if privacy.exposures and privacy.event is not None:
            whole = event_cost(privacy.event, privacy.delta, privacy.adjacency)
            if whole < found[None] * (1.0 - EPSILON_TOLERANCE):
                costs = f"the event that covers all records costs {_shown(whole)}"
                yield WRONG, f"{costs}, less than the {_shown(found[None])} of some"
        # Before files said who takes part in what, one event covered records of every group and
        # part, and could cost more than each of them.
        noisy = any(count.noisy for claim in claims.fairness for count in claim.counts)
        covers_all = privacy.exposures is None and (bool(privacy.per_group) or noisy)
        for group, figure in {None: privacy.epsilon, **(privacy.per_group or {})}.items():
            what = "epsilon" if group is None else f"epsilon of a record of {group_text(group)}"
            cost = _shown(found[group])
            if figure >= found[group] * (1.0 - EPSILON_TOLERANCE):
                yield RECOMPUTED, what
            elif covers_all:
                unsaid = "the file does not say which records took part in its event"
                yield MISSING, f"{what}: {unsaid}, which costs {cost} and covers all"
            else:
                stated = f"{what} is stated as {_shown(figure)} at δ = {as_given(privacy.delta)}"
                yield WRONG, f"{stated}, but its event costs {cost}"
    # What counts of records cost is not part of a promise of another kind: see `with_counts`.
    if privacy.protects not in ("record", "person"):
        return
    # Noisy counts of records cannot cost more than all that was spent on one.
    prices = _prices(claims)
    for counted, price in prices.items():
        if price > privacy.epsilon * (1.0 + EPSILON_TOLERANCE):
            counts = f"the counts of {counted} alone cost {_shown(price)}"
            yield WRONG, f"epsilon is stated as {_shown(privacy.epsilon)}, but {counts}"
    yield from ((WRONG, text) for text in uncounted_tables(privacy, prices.values()))


def _prices(claims: Claims) -> dict[str, float]:
    """Cost of the noisy counts behind each claim, and behind scores."""
    found = {
        claim.notion: claim.derivation.values["epsilon"]
        for claim in claims.fairness
        if claim.derivation is not None and KINDS[claim.derivation.kind].spends
    }
    if claims.scores is not None and claims.scores.count_epsilon is not None:
        found["scores"] = claims.scores.count_epsilon
    return found


def _shown(figure: float | None) -> str:
    return "nothing" if figure is None else as_given(figure)
