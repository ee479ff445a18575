"""Encoder with locally private output, fair for predictors that see nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.utils import Tags

from skfairdp.base.predictors import FRESH_RELEASES, NOISE_BY_PLACE, expecting
from skfairdp.fairness.notions import DERIVED
from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import (
    BOOLEAN,
    COUNT,
    MAPPING,
    NORM,
    PROBABILITY,
    Choice,
    Number,
    check_parameters,
)
from skfairdp.foundation.scikit_learn import ClassNamePrefixFeaturesOutMixin
from skfairdp.inprocessing.fair_path.classifier import FairPathClassifier
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import PROTECTS
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.records import Given
from skfairdp.records.groups import groups_of_training
from skfairdp.records.rows import check_rows
from skfairdp.representation.forward import ReleasesThroughNetworks, without_ids
from skfairdp.representation.planning import RAW, codes_quote, fitting_quote, randomizer_of
from skfairdp.representation.randomizers import ResponseRandomizer

if TYPE_CHECKING:
    from skorch import NeuralNet


class PrivateFairEncoder(ClassNamePrefixFeaturesOutMixin, ReleasesThroughNetworks):
    """Encoder with locally private output that keeps the information for a declared purpose.

    An encoder maps each row x to a small representation, which is truncated and then
    randomised: what leaves `transform` is private for the person behind the row, against
    all who see it. Therefore no predictor that sees it alone, of whatever kind, can treat two
    groups more differently than ``tanh(epsilon / 2)``. The encoder is trained together with
    a decoder that predicts the label u from the released z, and one that rebuilds x from z
    and the group s: it maximises ``E log q(x | z, s) + beta E log q(u | z)``. What the group
    tells anyway need not be in z.

    The promise is about rows that are released, not about those that it was trained on,
    unless `train_privately` is set.

    With ``objective="fair_codes"`` one code is released instead: the answer of the most accurate
    classifier within a tolerance, or its score cut into levels. Its law hardly differs between
    groups, so that for people like those held out `certify` proves much more than
    ``tanh(epsilon / 2)``, about whatever is predicted from the code.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Networks, optimizer, learning rate and device. None stands for three perceptrons
        with Adam at 0.001 (`RepresentationModule`); parts of it can be set as
        ``net__module__hidden_sizes``, ``net__lr`` and so on. For images give a net with
        `ConvRepresentationModule`. For fair codes it is that of a
        `~skfairdp.FairPathClassifier`: None is linear, for standardised columns and bins.
    objective : {"variational", "fair_codes"}, default="variational"
        What the encoder is trained for. Fair codes need ``noise="randomized_response"``, two
        classes and groups; there `beta`, `label_law`, `n_components`, `bound`, `n_values`,
        `n_samples`, `commitment`, `column_types` and `output` have no effect.
    noise : {"laplace", "randomized_response"}, default="laplace"
        Continuous representations with Laplace noise, or codes with randomised response.
    epsilon : float, default=5.0
        Cost of one release of one row in nats (pure, local). 0 is allowed for
        randomised response, whose codes are then uniform. Infinity releases without
        noise, for comparison.
    beta : float, default=300.0
        Weight of the label against the row, >= 0.
    label_law : {"gaussian", "categorical"}, default="gaussian"
        q(u | z): a normal law of variance 1/2 around the probabilities that the decoder
        predicts, whose log-likelihood is a squared error (Brier score), or the paper's
        categorical law. The latter asks what is worth most bits, so that encoders sort people
        far below even odds apart; the former is closer to right decisions, and had the
        better accuracy on Adult, with a large `beta`.
    n_components : int, default=2
        d, numbers in a representation.
    bound : float, default=0.5
        t: representations are truncated to ``[-t, t]^d``.
    n_values : int, default=4
        k, values of each code; used with randomised response.
    n_samples : int, default=1
        L, draws of noise for each row in a training step.
    commitment : float, default=0.25
        Lambda, which holds the encoder close to its codes; used with randomised response.
    column_types : None, "gaussian", "bernoulli" or mapping, default=None
        What the columns of X are, for the decoder that rebuilds them: "gaussian",
        "bernoulli" (zeros and ones) and "categorical" (a list for each variable of its
        one-hot columns) each with a list of columns, by name or position; columns in none
        of them are Gaussian. None takes columns of zeros and ones in the training rows as
        Bernoulli, and with `train_privately`, where rows must not show, all as Gaussian.
        Numbers should be of size 1, see `PublicScaler`. A categorical variable
        whose columns are all zero has a category that was not declared, and is not
        rebuilt; a constant column is learned like any other and costs nothing.
    output : {"embedding", "codes"}, default="embedding"
        What `transform` returns for randomised response: the code words, or the codes.
    n_codes : int, default=2
        k, codes of a person, 2 to 16; used for fair codes. Two are the classifier's answers; more
        are levels of its score, equally wide: the tolerance is about the middle cut alone.
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds", \
"accuracy_parity"}, default="demographic_parity"
        Which rates of the classifier's answers shall be alike in all groups; used for fair codes.
    tolerance : float, default=0.05
        Largest difference of these rates among the training rows, before noise, in (0, 1);
        used for fair codes.
    majority_share : float, default=0.0
        Chance, in [0, 1), that the code of the more frequent class is released instead; used
        for fair codes. All gaps shrink by it, and accuracy goes to that of a constant.
    encoder_sees_group : bool, default=False
        Whether a fair code depends on the person's group too, who releases her own row and
        knows it. `transform` then needs `sensitive_features`.
    batch_size : int or "auto", default="auto"
        Rows in a training step; "auto" is 512, or ``ceil(n / 64)`` with fewer rows, and
        ``min(256, ceil(n / 10))`` expected rows with `train_privately`; for fair codes
        ``min(2048, ceil(n / 8))``.
    max_epochs : int or "auto", default="auto"
        Passes over the training rows; "auto" is 25, and 100 with `train_privately` and for fair
        codes.
    id_column : hashable or None, default=None
        Column of X, by name or position, that says who a row is about: integers or texts.
        It is not a feature. The same person with the same row then gets the same release
        again. None: every call is another release of all people in it.
    train_privately : bool, default=False
        Whether the training rows are protected too, by clipped and noisy gradients.
    training_epsilon : float, default=1.0
        Cost of the training in nats, with `train_privately`.
    delta : float, default=1e-6
        Probability in (0, 1/n) that it is exceeded, with `train_privately`.
    max_grad_norm : float, default=1.0
        Largest L2 norm of one record's gradient, with `train_privately`.
    max_rows_per_person : int, default=8
        With `train_privately` and `person_ids`: rows that a person brings to a batch, at most.
    dataset_size : int or None, default=None
        Declared number of training records, with `train_privately`; None takes that of
        the rows, or of the persons, which is then public.
    random_state : int, RandomState or None, default=None
        Seeds the initial weights; never noise.

    Attributes
    ----------
    bound_ : float
        `bound` at fit, which releases keep to.
    codebook_ : ndarray of float64, shape (n_components, n_values), or None
        Code words of each component.
    column_types_ : ColumnTypes or None
        Law of each column; None for fair codes.
    module_ : torch.nn.Module
        Encoder and decoders.
    output_ : str
        `output` at fit; "codes" for fair codes.
    path_ : FairPathClassifier or None
        Whose score is cut into fair codes.
    plan_ : Plan or None
        What training was charged for, with `train_privately`.
    randomizer_ : LaplaceRandomizer or ResponseRandomizer
        What representations pass through.
    sees_group_ : bool
        Whether releases need the groups of the rows.
    training_privacy_ : PrivacyGuarantee or None
        What is promised for the training rows: nothing, unless trained privately.

    See Also
    --------
    skfairdp.LaplaceTransformer : Noise behind any encoder.

    Notes
    -----
    The documentation's page on private representations has the proofs. Published settings: d = 2,
    t = 0.5 and learning rate 0.001; Adult 150 epochs in batches of 512 (codes: 128), Compas 100
    epochs of 64, with beta between 0.001 and 1000.

    References
    ----------
    S. Xie, Y. Wu, J. Li, M. Ding and K. B. Letaief, "Privacy for Fairness: Information
    Obfuscation for Fair Representation Learning with Local Differential Privacy", 2024,
    section 4 and appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import PrivateFairEncoder
    >>> X, s = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    >>> encoder = PrivateFairEncoder(epsilon=1.0, max_epochs=2)
    >>> Z = encoder.fit(X, X[:, 0] > 0, sensitive_features=s).transform(X)
    >>> Z.shape, encoder.privacy_.epsilon
    ((200, 2), 1.0)
    >>> claim = encoder.certify().fairness[0]
    >>> claim.scope, claim.figure
    ('any downstream predictor', '0.463')

    A fair code, and what held-out rows prove about it:

    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=6000, random_state=0)
    >>> X, y, groups = data.data.to_numpy(), data.target, data.sensitive_features
    >>> encoder = PrivateFairEncoder(objective="fair_codes", noise="randomized_response")
    >>> _ = encoder.fit(X[:3000], y[:3000], sensitive_features=groups[:3000])
    >>> held_out = {"sensitive_features": groups[3000:], "holdout": "public"}
    >>> certificate = encoder.certify(X[3000:], **held_out)
    >>> certificate.satisfies(tolerance=0.2, scope="any downstream predictor of such people")
    True
    """

    net: NeuralNet | None = field(default=None, kw_only=False)
    noise: str = "laplace"
    objective: str = "variational"
    epsilon: float = 5.0
    beta: float = 300.0
    label_law: str = "gaussian"
    n_components: int = 2
    bound: float = 0.5
    n_values: int = 4
    n_samples: int = 1
    commitment: float = 0.25
    column_types: str | Mapping[str, Sequence[Any]] | None = None
    output: str = "embedding"
    n_codes: int = 2
    notion: str = "demographic_parity"
    tolerance: float = 0.05
    majority_share: float = 0.0
    encoder_sees_group: bool = False
    batch_size: int | str = "auto"
    max_epochs: int | str = "auto"
    id_column: Hashable | None = None
    train_privately: bool = False
    training_epsilon: float = 1.0
    delta: float = 1e-6
    max_grad_norm: float = 1.0
    max_rows_per_person: int = 8
    dataset_size: int | None = None
    classes: Sequence[Any] | None = None
    progress: bool | None = None

    _parameters = {
        "noise": (Choice(("laplace", "randomized_response")),),
        "objective": (Choice(("variational", "fair_codes")),),
        "epsilon": (Number(0.0, finite=False),),
        "beta": (Number(0.0),),
        "label_law": (Choice(("categorical", "gaussian")),),
        "n_components": (COUNT,),
        "bound": (Number(1e-100, 1e100),),
        "n_values": (COUNT,),
        "n_samples": (COUNT,),
        "commitment": (Number(0.0),),
        "column_types": (Choice((None, "gaussian", "bernoulli")), MAPPING),
        "output": (Choice(("embedding", "codes")),),
        "n_codes": (Number(2, 16, integer=True),),
        "notion": (Choice(DERIVED),),
        "tolerance": (PROBABILITY,),
        "majority_share": (Number(0.0, 1.0, high_open=True),),
        "encoder_sees_group": (BOOLEAN,),
        "batch_size": (COUNT, Choice(("auto",))),
        "max_epochs": (COUNT, Choice(("auto",))),
        "train_privately": (BOOLEAN,),
        "training_epsilon": (Number(1e-4),),
        "max_grad_norm": (NORM,),
        "max_rows_per_person": (Number(1, 4096, integer=True),),
    }
    _takes_persons = True
    # All but those that releases look at; changed ones wait for the next fit.
    _served_the_fit: ClassVar[tuple[str, ...]] = (
        *_parameters,
        *("classes", "dataset_size", "delta", "export_key", "ledger", "progress", "random_state"),
    )
    n_features_in_: int = field(init=False)
    path_: FairPathClassifier | None = field(init=False)
    _views: ClassVar[tuple[str, ...]] = ("groups_", "plan_", "training_privacy_")

    @property
    def plan_(self) -> Plan | None:
        return self._quote_kept.plan

    @property
    def training_privacy_(self) -> PrivacyGuarantee | None:
        return self._quote_kept.privacy

    def _default_of(self, name: str) -> NeuralNet:
        from skfairdp.representation.networks import representation_net

        return representation_net()

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        from skfairdp.representation.fair_codes import fit_codes
        from skfairdp.representation.training import fit_networks

        check_parameters(self, self._parameters)
        X, _ = without_ids(given.X, self.id_column)
        images, declared = self.net is not None, self.classes is not None
        X, y = check_rows(self, X, given.y, allow_nd=images, labels_declared=declared)
        X, groups = X.reshape(len(X), -1), None
        if given.sensitive_features is not None:
            groups = groups_of_training(given.sensitive_features, len(X))
        named = None if groups is None else groups.labels
        given = replace(given, X=X, y=y)
        codes = self.objective == "fair_codes"
        self.sees_group_ = codes and bool(self.encoder_sees_group)
        randomizer, quote = (
            fit_codes(self, given, charge, named)
            if codes
            else fit_networks(self, given, groups, charge)
        )
        self._start_releasing(randomizer)
        return Receipt(quote, named)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        k = self.n_codes
        if self.objective == "fair_codes":
            # Which code is the more frequent one shows at fit; the cost does not depend on it.
            share = self.majority_share
            codes = ResponseRandomizer(float(self.epsilon), 1, k, share, 0)
            return self._release_quote(codes, facts, codes_quote(self, facts))
        randomizer = randomizer_of(self)
        return self._release_quote(randomizer, facts, fitting_quote(self, facts, noise))

    def _what_is_covered(self) -> tuple[str, ...]:
        """Assumptions of the guarantee, and the facts about the training rows."""
        promise = self.training_privacy_
        if promise is None or promise.is_void:
            reason = RAW if promise is None else promise.assumptions[0]
            said = f"the training rows are not covered: {reason}"
        else:
            epsilon, delta = significant_up(promise.epsilon), significant_up(promise.delta, 3)
            said = (
                "the training rows have their own promise, of another kind, which is never "
                f"added to this one: ε = {epsilon}, δ = {delta} for {PROTECTS[promise.protects]}, "
                f"{promise.adjacency} (see training_privacy_)"
            )
        return (*super()._what_is_covered(), said)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not self.reproducible_noise
        tags.target_tags.required = True
        tags.requires_fit = True
        tags.transformer_tags.preserves_dtype = []
        fresh = FRESH_RELEASES if tags.non_deterministic else {}
        return expecting(tags, NOISE_BY_PLACE, fresh)
