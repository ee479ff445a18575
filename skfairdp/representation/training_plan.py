"""What private training of an encoder is planned and promised to cost."""

from __future__ import annotations

from functools import partial

from skfairdp.assumptions import of_training, seed_known
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes, check_delta
from skfairdp.representation.training import plan_of

RAW = "the encoder's weights were learned from them without noise"


def training_plan(
    n: int,
    *,
    dataset_size: int | None,
    epsilon: float,
    delta: float,
    batch_size: int | str,
    max_epochs: int,
    max_grad_norm: float,
) -> Plan:
    """Calibrate the noise of private training.

    `dataset_size`: declared number of records; None takes `n`, which is then public. `delta`:
    probability with which it may be exceeded; below 1/n. `max_grad_norm`: clip norm of a record's
    gradient. Raises ValueError: `delta` is too large, or the batch is larger than the data
    set.
    """
    sizes = Sizes.of_all(n, dataset_size)
    check_delta(delta, sizes.total)
    plan = partial(
        plan_of,
        sizes,
        batch_size=batch_size,
        max_epochs=max_epochs,
        max_grad_norm=max_grad_norm,
        delta=delta,
    )
    sigma = noise_multiplier_for(epsilon, delta, lambda s: plan(noise_multiplier=s))
    return plan(noise_multiplier=sigma)


def training_promise(
    plan: Plan | None, noise: NoiseSource, *, classes: bool, groups: bool
) -> PrivacyGuarantee:
    """State what training promises to the training rows.

    `plan`: none for training without noise. `noise`: where noise and batches come from. `groups`:
    whether there are groups; their set is taken from the rows. Result: void where nothing is
    promised.
    """
    if plan is None:
        return PrivacyGuarantee.void(RAW)
    if noise.reproducible:
        return PrivacyGuarantee.void(seed_known())
    return guarantee(
        plan,
        protects="record",
        assumptions=of_training(
            noise_text(noise),
            labels=classes,
            groups=False if groups else None,
            what="rows reach the networks",
        ),
    )
