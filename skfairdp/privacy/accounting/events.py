"""Plans as dp_accounting events, in one form that every accountant reads alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import attr
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, NOT_NEGATIVE, SHARE, Number
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import NEIGHBOURS

_COUNT = Number(0, integer=True)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FailureDpEvent(DpEvent):
    """A release that may, with a small probability, not be what its event says.

    Composed with the event of the release. Its probability is taken from delta before the
    accountants are asked, and costs nothing else.
    """

    # Bound, under any data set, on the probability of the outcomes (or secret choices that
    # neighbouring data sets share, such as the other records of a batch) for which the event of
    # the release is not an upper bound
    probability: float


def events(plan: Plan) -> tuple[DpEvent, ...]:
    """Events that a record of each cell takes part in.

    Parameters
    ----------
    plan : Plan
        What is released.

    Returns
    -------
    tuple of dp_accounting.DpEvent
        One composed event per cell, in the order of ``plan.cells``. Where an attribute
        may change, the record leaves one cell and joins another, and every cell gets the
        event that covers any two.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment, events
    >>> block = Block(name="gradient", max_norm=1.0, weights=(0.01,), noise_std=0.011)
    >>> step = Segment(steps=1000, rates=(0.01,), expected_sizes=(100.0,), blocks=(block,))
    >>> plan = Plan(cells=("all",), segments=(step,), adjacency="zero-out", delta=1e-5)
    >>> events(plan)[0].count
    1000
    """
    if NEIGHBOURS[plan.adjacency].two_cells:
        return (covering_event(plan),) * len(plan.cells)
    return tuple(
        _composed(
            plan,
            [(s.rates[cell], plan.charged_multiplier(s, cell)) for s in plan.segments],
            [plan.charged_epsilon(released, cell) for released in plan.sums],
        )
        for cell in range(len(plan.cells))
    )


@completed_by(events)
def covering_event(plan: Plan) -> DpEvent:
    """One event that covers a record of any cell.

    A higher rate and a smaller multiplier can only cost more, so each segment is
    charged with the highest rate and the smallest multiplier of all cells it touches.

    Returns
    -------
    dp_accounting.DpEvent
        Costs at least as much as the event of every cell, at every delta and in every
        composition; the event of the most expensive cell does not always.
    """
    cells, worst = range(len(plan.cells)), []
    for segment in plan.segments:
        multipliers = [plan.charged_multiplier(segment, cell) for cell in cells]
        both = zip(segment.rates, multipliers, strict=True)
        touched = max((rate for rate, m in both if math.isfinite(m)), default=0.0)
        worst.append((touched, min(multipliers)))
    pure = [max(plan.charged_epsilon(released, cell) for cell in cells) for released in plan.sums]
    return _composed(plan, worst, pure)


def undominated_cells(plan: Plan) -> tuple[int, ...]:
    """Positions of the cells that may be the most expensive one.

    Result: cells of which no other cell has, in every segment, at least the rate and at most the
    multiplier; of equal cells the first.
    """
    cells, taken = range(len(plan.cells)), [s for s in plan.segments if s.steps > 0]
    profiles = [
        [
            *(figure for s in taken for figure in (s.rates[cell], -s.multiplier(cell))),
            *(released.epsilon(cell) for released in plan.sums),
        ]
        for cell in cells
    ]

    def covers(a: int, b: int) -> bool:
        at_least = all(x >= y for x, y in zip(profiles[a], profiles[b], strict=True))
        return at_least and (profiles[a] != profiles[b] or a < b)

    return tuple(b for b in cells if not any(covers(a, b) for a in cells if a != b))


def canonical(event: DpEvent) -> DpEvent:
    """Rewrite an event so that every accountant reads it alike; unknown kinds stay as they are.

    Multipliers become Python floats, lists become tuples, Gaussian queries that share
    a Poisson batch become one query, and queries without cost or without noise are
    named as such.
    """
    if type(event).__module__ not in (dp_event.__name__, __name__):
        return event  # a subclass may release something else than its parent
    match event:
        case dp_event.GaussianDpEvent(noise_multiplier=sigma):
            return _noisy(sigma, dp_event.GaussianDpEvent)
        case dp_event.LaplaceDpEvent(noise_multiplier=scale):
            return _noisy(scale, dp_event.LaplaceDpEvent)
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=rate, sensitivity=sensitivity):
            if (rate := _multiplier(rate)) == 0.0 or sensitivity == 0:
                return dp_event.NoOpDpEvent()
            if math.isinf(rate):
                return dp_event.NonPrivateDpEvent()
            return dp_event.DiscreteLaplaceDpEvent(rate, int(sensitivity))
        case FailureDpEvent(probability=probability):
            if not 0.0 <= probability <= 1.0:
                raise ValueError(
                    f"a probability of {probability!r} is not allowed: give one in [0, 1]"
                )
            return FailureDpEvent(float(probability)) if probability else dp_event.NoOpDpEvent()
        case dp_event.SelfComposedDpEvent(event=inner, count=count):
            _check_fields(event, count=_COUNT)
            inner = canonical(inner)
            if count == 0 or isinstance(inner, dp_event.NoOpDpEvent):
                return dp_event.NoOpDpEvent()
            return inner if count == 1 else dp_event.SelfComposedDpEvent(inner, int(count))
        case dp_event.ComposedDpEvent(events=parts):
            costly = (part for part in map(canonical, parts) if part != dp_event.NoOpDpEvent())
            if not (kept := tuple(costly)):
                return dp_event.NoOpDpEvent()
            return kept[0] if len(kept) == 1 else dp_event.ComposedDpEvent(kept)
        case dp_event.PoissonSampledDpEvent(sampling_probability=rate, event=inner):
            return _sampled(float(rate), canonical(inner))
        case dp_event.SampledWithoutReplacementDpEvent(
            source_dataset_size=size, sample_size=drawn, event=inner
        ):
            _check_fields(event, source_dataset_size=COUNT)
            _check_fields(event, sample_size=Number(0, float(size), integer=True))
            inner = _merged_gaussians(canonical(inner))
            if drawn == 0 or inner in (dp_event.NoOpDpEvent(), dp_event.NonPrivateDpEvent()):
                return inner if drawn else dp_event.NoOpDpEvent()
            return dp_event.SampledWithoutReplacementDpEvent(int(size), int(drawn), inner)
        case dp_event.RandomizedResponseDpEvent(noise_parameter=share, num_buckets=answers):
            _check_fields(event, noise_parameter=SHARE, num_buckets=COUNT)
            if answers == 1 or share == 1.0:
                return dp_event.NoOpDpEvent()
            if share == 0.0:
                return dp_event.NonPrivateDpEvent()
            return dp_event.RandomizedResponseDpEvent(float(share), int(answers))
        case dp_event.MixtureOfGaussiansDpEvent():
            return _mixture(event)
        case dp_event.TruncatedSubsampledGaussianDpEvent():
            return _truncated(event)
        case dp_event.SingleEpochTreeAggregationDpEvent(noise_multiplier=sigma):
            _check_fields(event, noise_multiplier=NOT_NEGATIVE)
            return event if sigma else dp_event.NonPrivateDpEvent()
        case dp_event.ZCDpEvent():
            _check_fields(event, rho=NOT_NEGATIVE, xi=NOT_NEGATIVE)
            return event
        case dp_event.RepeatAndSelectDpEvent(event=inner, mean=mean, shape=shape):
            _check_fields(event, mean=Number(1.0), shape=Number(0.0, finite=False))
            inner = canonical(inner)
            if any(isinstance(part, dp_event.NonPrivateDpEvent) for part, _ in parts_of(inner)):
                return dp_event.NonPrivateDpEvent()
            return dp_event.RepeatAndSelectDpEvent(inner, mean, shape)
        case _:
            return event


def without_failures(event: DpEvent) -> tuple[DpEvent, float]:
    """Split an event into what the accountants take and what delta has to cover.

    Result `event`: in canonical form, without failures; `probability`: of any failure, by the sum
    over all of them; of a random number of runs, by its mean.
    """
    match event:
        case FailureDpEvent(probability=probability):
            return dp_event.NoOpDpEvent(), probability
        case dp_event.ComposedDpEvent(events=parts):
            split = [without_failures(part) for part in parts]
            kept = canonical(dp_event.ComposedDpEvent(tuple(part for part, _ in split)))
            return kept, math.fsum(probability for _, probability in split)
        case dp_event.SelfComposedDpEvent(event=inner, count=count):
            kept, probability = without_failures(inner)
            return canonical(dp_event.SelfComposedDpEvent(kept, count)), count * probability
        case dp_event.RepeatAndSelectDpEvent(event=inner, mean=mean, shape=shape):
            kept, probability = without_failures(inner)
            return dp_event.RepeatAndSelectDpEvent(kept, mean, shape), mean * probability
        case _:
            return event, 0.0


def _composed(plan: Plan, steps: list[tuple[float, float]], pure: list[float]) -> DpEvent:
    times, counted = dp_event.SelfComposedDpEvent, dp_event.DiscreteLaplaceDpEvent
    parts: list[DpEvent] = []
    for segment, (rate, multiplier) in zip(plan.segments, steps, strict=True):
        batch = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
        parts.append(times(batch, segment.steps))
    parts += [times(counted(count.epsilon, 1), count.releases) for count in plan.counts]
    # Discrete Laplace noise on one count loses exactly +-epsilon, as randomised response
    # does, and that dominates every pure mechanism. No such claim is needed, or made, for
    # a vector of Laplace noises and dp_accounting's one-dimensional Laplace event.
    parts += [counted(epsilon, 1) for epsilon in pure]
    parts += [times(FailureDpEvent(plan.charged_failure(s)), s.steps) for s in plan.segments]
    return canonical(dp_event.ComposedDpEvent(parts))


def _multiplier(value: float) -> float:
    number = float(value)
    if not number >= 0.0:
        raise ValueError(f"a noise multiplier of {value!r} is not allowed: give a number >= 0")
    return number


def _noisy(value: float, kind: type[DpEvent]) -> DpEvent:
    if (multiplier := _multiplier(value)) == 0.0:
        return dp_event.NonPrivateDpEvent()
    if math.isinf(multiplier):
        return dp_event.NoOpDpEvent()
    return kind(multiplier)


def _sampled(rate: float, inner: DpEvent) -> DpEvent:
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"a sampling probability of {rate!r} is not allowed: give one in [0, 1]")
    if rate == 0.0 or isinstance(inner, dp_event.NoOpDpEvent):
        return dp_event.NoOpDpEvent()
    if rate == 1.0 or isinstance(inner, dp_event.NonPrivateDpEvent):
        return inner
    return dp_event.PoissonSampledDpEvent(rate, _merged_gaussians(inner))


def _merged_gaussians(inner: DpEvent) -> DpEvent:
    """One query in place of Gaussian queries on one batch; anything else as it is."""
    parts = list(parts_of(inner))
    if all(type(part) is dp_event.GaussianDpEvent for part, _ in parts):
        precision = sum(count * part.noise_multiplier**-2 for part, count in parts)
        return dp_event.GaussianDpEvent(precision**-0.5)
    return inner


def _mixture(event: dp_event.MixtureOfGaussiansDpEvent) -> DpEvent:
    moved = tuple(float(number) for number in event.sensitivities)
    shares = tuple(float(number) for number in event.sampling_probs)
    _check_fields(event, standard_deviation=NOT_NEGATIVE)
    right = moved != () and all(math.isfinite(number) and number >= 0.0 for number in moved)
    if not right:
        raise ValueError(
            "'sensitivities' of a MixtureOfGaussiansDpEvent must be finite numbers >= 0, at least "
            f"one; got {event.sensitivities!r}."
        )
    whole = abs(math.fsum(shares) - 1.0) <= 1e-9 and all(share >= 0.0 for share in shares)
    if len(shares) != len(moved) or not whole:
        raise ValueError(
            "'sampling_probs' of a MixtureOfGaussiansDpEvent must be probabilities with a sum of "
            f"1, one for each of its {len(moved)} sensitivities; got {event.sampling_probs!r}."
        )
    moves = any(size > 0.0 and share > 0.0 for size, share in zip(moved, shares, strict=True))
    if not moves or math.isinf(event.standard_deviation):
        return dp_event.NoOpDpEvent()
    if event.standard_deviation == 0.0:
        return dp_event.NonPrivateDpEvent()
    return dp_event.MixtureOfGaussiansDpEvent(float(event.standard_deviation), moved, shares)


def _truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent) -> DpEvent:
    _check_fields(
        event,
        dataset_size=_COUNT,
        truncated_batch_size=_COUNT,
        sampling_probability=SHARE,
        noise_multiplier=NOT_NEGATIVE,
    )
    if not event.dataset_size or not event.truncated_batch_size or not event.sampling_probability:
        return dp_event.NoOpDpEvent()
    return event if event.noise_multiplier else dp_event.NonPrivateDpEvent()


def _check_fields(event: DpEvent, **allowed: Number) -> None:
    """Raise a ValueError that names the field of an event that is out of its range."""
    for name, number in allowed.items():
        if not number.accepts(value := getattr(event, name)):
            raise ValueError(
                f"{name!r} of a {type(event).__name__} must be {number.describe()}; got {value!r}."
            )


def rewritten(event: DpEvent, of_part: Callable[[DpEvent], DpEvent]) -> DpEvent:
    """Rewrite the parts of a composed event, and keep its structure."""
    match event:
        case dp_event.ComposedDpEvent(events=parts):
            return dp_event.ComposedDpEvent(tuple(rewritten(part, of_part) for part in parts))
        case dp_event.SelfComposedDpEvent(event=inner, count=count):
            return dp_event.SelfComposedDpEvent(rewritten(inner, of_part), count)
        case dp_event.RepeatAndSelectDpEvent(event=inner, mean=mean, shape=shape):
            return dp_event.RepeatAndSelectDpEvent(rewritten(inner, of_part), mean, shape)
        case _:
            return of_part(event)


def parts_of(event: DpEvent, count: int = 1) -> Iterator[tuple[DpEvent, int]]:
    """Composed parts of an event with how often each occurs."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from parts_of(event.event, count * event.count)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from parts_of(part, count)
    else:
        yield event, count
