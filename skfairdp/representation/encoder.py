"""An encoder whose output is locally private, and fair for predictors that see nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from skorch import NeuralNet

from skfairdp.base import PrivateEstimator
from skfairdp.engine.nets import PreparedNet
from skfairdp.engine.parameter_vector import unflatten
from skfairdp.engine.randomness import own_draws
from skfairdp.engine.training import Progress
from skfairdp.fairness.groups import encode_groups
from skfairdp.figures import significant_up
from skfairdp.parameters import BOOLEAN, COUNT, MAPPING, NORM, Choice, Number, check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import PROTECTS
from skfairdp.representation.column_laws import ColumnTypes
from skfairdp.representation.forward import ReleasesThroughNetworks
from skfairdp.representation.networks import representation_net
from skfairdp.representation.objective import Weights
from skfairdp.representation.person_ids import without_ids
from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer
from skfairdp.representation.training import (
    Task,
    descend,
    descend_privately,
    plain_batch_size,
    refuse_mixing_encoder,
    rehearse_privately,
)
from skfairdp.representation.training_plan import RAW, training_plan, training_promise
from skfairdp.rows import check_rows, encode_labels


class PrivateFairEncoder(  # type: ignore[override]  # privacy_ follows from the count
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ReleasesThroughNetworks, PrivateEstimator
):
    """Encoder whose output is locally private, and keeps what serves a declared purpose.

    An encoder maps each row x to a small representation, which is truncated and then
    randomised: what leaves `transform` is private for the person behind the row, against
    all who see it. Therefore no predictor that sees it alone, of whatever kind, can treat two
    groups more differently than ``tanh(epsilon / 2)``. The encoder is trained together with
    a decoder that predicts the label u from the released z, and one that rebuilds x from z
    and the group s: it maximises ``E log q(x | z, s) + beta E log q(u | z)``. What the group
    tells anyway need not be in z.

    The promise is about rows that are released, not about those that it was trained on,
    unless `train_privately` is set.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Networks, optimizer, learning rate and device. None stands for three perceptrons
        with Adam at 0.001 (`RepresentationModule`); parts of it can be set as
        ``net__module__hidden_sizes``, ``net__lr`` and so on. For images give a net with
        `ConvRepresentationModule`.
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
    batch_size : int or "auto", default="auto"
        Rows in a training step; "auto" is 512, or ``ceil(n / 64)`` with fewer rows, and
        ``min(256, ceil(n / 10))`` expected rows with `train_privately`.
    max_epochs : int, default=100
        Passes over the training rows.
    id_column : hashable or None, default=None
        Column of X, by name or position, that says who a row is about: integers or texts.
        It is no feature. The same person with the same row then gets the same release
        again. None: every call is another release of all people in it.
    export_key : bool, default=False
        Whether pickles keep the key that repeats releases; who has it can subtract the
        noise of all calls with ids.
    train_privately : bool, default=False
        Whether the training rows are protected too, by clipped and noisy gradients.
    training_epsilon : float, default=1.0
        Cost of the training in nats, with `train_privately`.
    delta : float, default=1e-6
        Probability in (0, 1/n) that it is exceeded, with `train_privately`.
    max_grad_norm : float, default=1.0
        Largest L2 norm of one record's gradient, with `train_privately`.
    dataset_size : int or None, default=None
        Declared number of training records, with `train_privately`; None takes that of
        the rows, which is then public.
    classes : sequence or None, default=None
        Declared class labels; a row with another one trains nothing. None takes them from
        `y`; they are then public.
    random_state : int, RandomState or None, default=None
        Seeds the initial weights; never noise.
    ledger : None, path or PrivacyLedger, default=None
        Where the fit and each release is charged before rows are used.

    Attributes
    ----------
    bound_ : float
        `bound` at fit, which releases keep to.
    codebook_ : ndarray of float64, shape (n_components, n_values), or None
        Code words of each component.
    column_types_ : ColumnTypes
        Law of each column.
    memory_ : ReleaseMemory
        Repeats releases by id.
    module_ : torch.nn.Module
        Encoder and decoders.
    output_ : str
        `output` at fit.
    plan_ : Plan or None
        What training was charged for, with `train_privately`.
    privacy_ : PrivacyGuarantee or None
        What the releases so far promise to each person; None after ``epsilon=inf``.
    randomizer_ : LaplaceRandomizer or ResponseRandomizer
        What representations pass through.
    releases_ : ReleaseCount
        How often there was a release.
    training_privacy_ : PrivacyGuarantee or None
        What is promised for the training rows: nothing, unless trained privately.
    n_features_in_ : int
        Number of columns of X, that of the ids not counted.

    See Also
    --------
    skfairdp.representation.LaplaceTransformer : Noise behind any encoder.

    Notes
    -----
    Published settings: d = 2, t = 0.5 and learning rate 0.001; Adult 150 epochs in batches
    of 512 (codes: 128), Compas 100 epochs of 64, with beta between 0.001 and 1000. In
    training, gradients pass the truncation as ``t * tanh``, since a hard one has no
    gradient outside of the box.

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
    """

    net: NeuralNet | None = field(default=None, kw_only=False)
    noise: str = "laplace"
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
    batch_size: int | str = "auto"
    max_epochs: int = 100
    id_column: Hashable | None = None
    export_key: bool = False
    train_privately: bool = False
    training_epsilon: float = 1.0
    delta: float = 1e-6
    max_grad_norm: float = 1.0
    dataset_size: int | None = None
    classes: Sequence[Any] | None = None
    progress: bool | None = None

    _parameters = {
        "noise": (Choice(("laplace", "randomized_response")),),
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
        "batch_size": (COUNT, Choice(("auto",))),
        "max_epochs": (COUNT,),
        "export_key": (BOOLEAN,),
        "train_privately": (BOOLEAN,),
        "training_epsilon": (Number(1e-4),),
        "max_grad_norm": (NORM,),
    }
    # All but those that releases look at; changed ones wait for the next fit.
    _served_the_fit: ClassVar[tuple[str, ...]] = tuple(
        {*_parameters, "classes", "dataset_size", "delta", "ledger", "progress", "random_state"}
    )
    _released: ClassVar[tuple[str, ...]] = (
        "bound_",
        "classes_",
        "codebook_",
        "column_types_",
        "feature_names_in_",
        "groups_",
        "memory_",
        "module_",
        "n_features_in_",
        "output_",
        "plan_",
        "randomizer_",
        "releases_",
        "training_privacy_",
    )

    n_features_in_: int = field(init=False)
    plan_: Plan | None = field(init=False)
    training_privacy_: PrivacyGuarantee | None = field(init=False)

    def _default_of(self, name: str) -> NeuralNet:
        return representation_net()

    def _fit(self, X: Any, y: Any, sensitive_features: Any) -> None:
        check_parameters(self, self._parameters)
        randomizer = self._randomizer()
        X, _ = without_ids(X, self.id_column)
        X, y = check_rows(
            self, X, y, allow_nd=self.net is not None, labels_declared=self.classes is not None
        )
        classes, labels = encode_labels(y, self.classes, multiclass=True)
        groups = (
            None if sensitive_features is None else encode_groups(sensitive_features, n_rows=len(X))
        )
        X = X.reshape(len(X), -1)
        task = Task(
            net=representation_net() if self.net is None else self.net,
            randomizer=randomizer,
            bound=float(self.bound),
            weights=Weights(
                float(self.beta), self.n_samples, float(self.commitment), self.label_law
            ),
            types=self._types(X),
            n_features=X.shape[1],
            n_classes=len(classes),
            n_groups=0 if groups is None else len(groups.labels),
        )
        seed, noise = self._randomness()
        plan = None
        if self.train_privately:
            plan = training_plan(
                len(X),
                dataset_size=None if self.dataset_size is None else int(self.dataset_size),
                epsilon=float(self.training_epsilon),
                delta=float(self.delta),
                batch_size=self.batch_size,
                max_epochs=self.max_epochs,
                max_grad_norm=float(self.max_grad_norm),
            )
        stated = training_promise(
            plan, noise, classes=self.classes is not None, groups=groups is not None
        )
        prepared = task.prepare(seed)
        draws = self._draws(prepared, task.n_features + task.n_groups + task.n_classes, noise)
        rows = task.rows(X, None if groups is None else groups.codes, labels)
        if plan is not None:
            rehearse_privately(prepared, rows, plan)
        self._charge(stated)  # before a row reaches a network
        with draws:
            loss = self._train(prepared, rows, labels >= 0, plan, noise)
        unflatten(loss)
        if not all(bool(p.isfinite().all()) for p in loss.parameters()):
            raise ValueError(
                f"{type(self).__name__} diverged: its weights are no longer finite. Lower the "
                f"learning rate (net__lr) or 'beta' (now {self.beta!r})."
            )
        # In double precision other machines too seldom disagree about a point of the grid.
        self.module_ = loss.module.double().eval()
        refuse_mixing_encoder(self.module_, X.shape[1])  # it may have learned to
        self.bound_ = float(self.bound)
        self.codebook_ = loss.channel.words()
        self.column_types_ = task.types
        self.classes_ = classes
        self.groups_ = None if groups is None else groups.labels
        self.output_ = self.output
        self.plan_ = plan
        self.training_privacy_ = stated
        self._start_releasing(randomizer)

    def _train(
        self,
        prepared: PreparedNet,
        rows: NDArray[Any],
        contributes: NDArray[np.bool_],
        plan: Plan | None,
        noise: NoiseSource,
    ) -> Any:
        """Train the loss; return it."""
        n = int(contributes.sum())
        size = 1 if plan else plain_batch_size(self.batch_size, n)
        steps = plan.steps if plan else self.max_epochs * -(-n // size)
        progress = Progress(steps, self.progress, type(self).__name__)
        try:
            if plan is None:
                descend(
                    prepared,
                    rows[contributes],
                    batch_size=size,
                    max_epochs=self.max_epochs,
                    progress=progress,
                    generator=noise.masks,
                )
            else:
                descend_privately(
                    prepared,
                    rows,
                    contributes=contributes,
                    plan=plan,
                    noise=noise,
                    max_epochs=self.max_epochs,
                    progress=progress,
                )
        finally:
            progress.close()
        return prepared.module

    def _draws(
        self, prepared: PreparedNet, width: int, noise: NoiseSource
    ) -> AbstractContextManager[Any]:
        """Where the draws of the networks come from."""
        loss: Any = prepared.module
        loss.channel.eval()  # has draws of its own
        draws = own_draws(loss, (width,), noise.masks)
        loss.channel.train()
        return draws

    def _randomizer(self) -> LaplaceRandomizer | ResponseRandomizer:
        if self.noise == "laplace":
            return LaplaceRandomizer(float(self.epsilon), self.n_components, float(self.bound))
        return ResponseRandomizer(float(self.epsilon), self.n_components, self.n_values)

    def _types(self, X: NDArray[Any]) -> ColumnTypes:
        if self.column_types is None and not self.train_privately:
            return ColumnTypes.from_rows(X)
        names = list(getattr(self, "feature_names_in_", range(X.shape[1])))
        return ColumnTypes.declared(self.column_types or "gaussian", names)

    def _what_is_covered(self) -> tuple[str, ...]:
        """Conditions of the promise, and what is true of the training rows."""
        training = self.training_privacy_
        if training is None or training.is_void:
            reason = RAW if training is None else training.assumptions[0]
            said = f"the training rows are not covered: {reason}"
        else:
            said = (
                f"the training rows have a promise of their own, of another kind, which is never "
                f"added to this one: ε = {significant_up(training.epsilon)}, δ = "
                f"{significant_up(training.delta, 3)} for "
                f"{PROTECTS[training.protects]}, {training.adjacency} (see training_privacy_)"
            )
        return (*super()._what_is_covered(), said)

    def transform(self, X: ArrayLike, *, ids: ArrayLike | None = None) -> NDArray[Any]:
        """Release the representations of rows.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Numbers, with the column of ids where there is one.
        ids : array-like, shape (n_samples,), optional
            Who each row is about: integers or texts. The same person with the same row
            gets the same release again, at no further cost; a person with two different
            rows has two releases. Without ids, every call is another release of
            all people in it, and costs `epsilon` again.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_components)
            Of int64 for ``output="codes"``. Laplace noise leads out of the box.

        Raises
        ------
        ValueError
            `X` is not as it was at fit, an id is missing, or the key for ids was not
            exported with the pickle that this encoder comes from.
        BudgetExceededError
            The ledger has no room for another release. No row was used.
        """
        return self._release(X, ids)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Fit, and release the same rows.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            Labels.
        sensitive_features : array-like, optional
            Groups.
        ids : array-like, shape (n_samples,), optional
            As in `transform`.

        Returns
        -------
        ndarray, shape (n_samples, n_components)
        """
        return self.fit(X, y, sensitive_features=sensitive_features).transform(X, ids=ids)

    def __sklearn_tags__(self) -> Tags:
        """Describe the encoder to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not self.reproducible_noise
        tags.target_tags.required = True
        tags.requires_fit = True
        tags.transformer_tags.preserves_dtype = []
        return tags
