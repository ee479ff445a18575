"""Scopes of fairness claims: one record each, with its words.

A scope says which rates a bound is about, and whose. To add one, add its record here: the
certificate's sentence, its sections and its checks read the records. The kinds of bounds that a
scope allows are in `skfairdp.fairness.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass

DEPLOYED = "deployed model"
AVERAGED = "averaged over its draws"
ANY_POPULATION = "any population"
TRAINING = "training mechanism"
DOWNSTREAM = "any downstream predictor"
DOWNSTREAM_LIKE = "any downstream predictor of such people"
ANSWERED = "answered queries"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Rates and people that a bound applies to."""

    means: str  # One sentence for readers of a certificate
    # Start of the certificate's sentence, before "the ... rates of any two groups differ by at
    # most"; {certainty} is the confidence
    lead: str
    population: str = "any people"  # {held_out}: the held-out rows, with their number if public
    from_rows: bool = False  # Whether a bound is estimated from rows, with a confidence level
    certainty: str = "derived, not estimated from rows"  # Where there is no confidence level


_LIKE_HELD_OUT = "people like {held_out} held out"
_DRAWS = "About rates averaged over the model's random draws, not about this one model."

# In the order in which the certificate's sentence prefers them.
SCOPES: dict[str, Scope] = {
    DEPLOYED: Scope(
        means="About the answers of this model as deployed, with the same key for random draws.",
        lead="With {certainty}",
        population=_LIKE_HELD_OUT,
        from_rows=True,
    ),
    DOWNSTREAM_LIKE: Scope(
        means="About whatever is predicted from one code, averaged over its noise.",
        lead="With {certainty}, whatever is predicted from one released code, averaged over its "
        "noise,",
        population=_LIKE_HELD_OUT,
        from_rows=True,
    ),
    DOWNSTREAM: Scope(
        means="About whatever is predicted from the representation, averaged over its noise.",
        lead="Whatever is predicted from the released representation, averaged over its noise,",
    ),
    ANY_POPULATION: Scope(
        means=_DRAWS,
        lead="For any people, averaged over the model's random draws (not for this one model),",
    ),
    AVERAGED: Scope(
        means=_DRAWS,
        lead="With {certainty}, averaged over the model's random draws (not for this one model),",
        population=_LIKE_HELD_OUT,
        from_rows=True,
    ),
    ANSWERED: Scope(
        means="About the answers given so far, and no others.",
        lead="Among the queries answered so far,",
        population="the people answered so far",
        certainty="counted",
    ),
    TRAINING: Scope(
        means="About the average over the noise of training, not about this one model.",
        lead="Averaged over the noise of training (not for this one model),",
    ),
}
# Claims about people like those who were held out; the others hold for all people.
FROM_ROWS = tuple(name for name, scope in SCOPES.items() if scope.from_rows)
