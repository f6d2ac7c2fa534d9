"""Differentially private neural representations: Laplace noise between an encoder and a head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.accounting import published_systems
from uedp_bench.accounting.accountants.basic_composition import before_dropout
from uedp_bench.api import CorpusStats, Events, InputError, Params, RepresentationMechanism
from uedp_bench.api.events import Claim, NonPrivate, PrivacyEvent, Reading
from uedp_bench.mechanisms._noise import spent
from uedp_bench.randomness import check_laplace

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.api import Corpus, IntArray, Run
    from uedp_bench.api.networks import Learner, Losses
    from uedp_bench.mechanisms.representations.split_training import Draws

FINENESS = 20
"""Outputs are multiples of the smallest power of 2 above the scale of the noise, over 2^this."""


def normalised(z: Tensor) -> Tensor:
    """Every row (rows, d) mapped linearly to [0, 1]: least coordinate to 0, largest to 1.

    Rows whose coordinates are all the same become 0. The range holds whatever rounding does,
    because the proof needs it.
    """
    import torch

    low, high = z.amin(dim=1, keepdim=True), z.amax(dim=1, keepdim=True)
    span = high - low
    return ((z - low) / torch.where(span > 0, span, 1.0)).clamp(0.0, 1.0)


@dataclass
class LaplaceChannel:
    """A `RepresentationChannel`: word dropout, min-max normalisation, Laplace noise.

    Attributes:
        scale: b of the noise.
        word_dropout: probability that a word is dropped.
        shared: one number is added to all coordinates of a row, in place of one for each.
    """

    scale: float
    word_dropout: float = 0.0
    shared: bool = False

    @property
    def step(self) -> float:
        """Grid step of released coordinates: 2^-19 to 2^-20 of the scale."""
        return 2.0 ** (math.frexp(self.scale)[1] - FINENESS)

    def perturb(self, z: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """See `RepresentationChannel`.

        Value and noise are rounded to multiples of `step`, a power of 2, before they are added in
        integers. The sum of two floating-point numbers would have low bits that tell which values
        it can have come from (Mironov 2012); multiples of one step can come from all of them.

        Raises:
            PrivacyError: if what is sent does not have the noise of `scale`.
        """
        import torch

        values = normalised(z).double().cpu().numpy()
        drawn = 1 if self.shared else values.shape[1]
        noise = np.stack([rng.laplace(scale=self.scale, size=drawn) for rng in rngs])
        noisy = (np.rint(values / self.step) + np.rint(noise / self.step)) * self.step
        # One column is all noise there is where coordinates share it.
        check_laplace(values[:, :drawn], noisy[:, :drawn], self.scale, "noise on representations")
        return torch.from_numpy(noisy).to(z)

    def perturb_in_training(self, z: Tensor, rng: np.random.Generator) -> Tensor:
        """Perturb off the grid, differentiable in `z`, with the noise of all rows from `rng`.

        It is drawn on the CPU in float64, so that every device adds the same.
        """
        import torch

        rows, width = z.shape
        noise = rng.laplace(scale=self.scale, size=(rows, 1 if self.shared else width))
        return normalised(z) + torch.from_numpy(noise).to(z)


SHARED = (
    "noise is shared: one number is added to all coordinates of a row, so their differences are "
    "published as they are"
)
TRAINING = "training text is the server's and has no protection"
ASSUMPTIONS = (
    "the text that is protected is the text sent at inference, not that of training",
    "a text is sent once, or every time with the same noise",
    f"noise is that of real numbers, rounded to a grid of at most 2^-{FINENESS - 1} of its scale",
)


class DPNRParams(Params):
    """The noise, and how the classifier is trained with the same noise in the loop."""

    epsilon: float | None = Field(
        default=None,
        gt=0,
        description="epsilon of one coordinate, the paper's: Laplace noise of scale 1/epsilon",
    )
    total_epsilon: float | None = Field(
        default=None,
        gt=0,
        description="proven for a word at delta 0, in place of epsilon, which then follows from "
        "dimension and word_dropout",
    )
    dimension: int = Field(
        default=768, ge=1, description="k: coordinates of the representation; the model's"
    )
    word_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="mu: probability that a word is dropped beforehand"
    )
    noise: Literal["independent", "shared"] = Field(
        default="independent",
        description="independent: a number for every coordinate, as in the paper; shared: one "
        "number for all coordinates of a row, as in the code that its authors released, which "
        "protects nothing",
    )
    epochs: int = Field(default=4, ge=1, description="passes over the training rows")
    batch_size: int = Field(default=64, ge=1, description="rows a step")
    learning_rate: float = Field(
        default=5e-5,
        gt=0,
        description="learning rate of AdamW; the default is for a pretrained encoder",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="decoupled (AdamW)")

    @model_validator(mode="after")
    def _one_epsilon(self) -> Self:
        if self.epsilon is None and self.total_epsilon is None:
            raise ValueError(
                "needs the parameter 'epsilon' (of one coordinate) or 'total_epsilon' (proven)"
            )
        if self.epsilon is not None and self.total_epsilon is not None:
            raise ValueError("epsilon and total_epsilon are both given; give one of them")
        if math.isinf(1.0 / max(self.per_coordinate, 5e-324)):
            raise ValueError("no representable noise is as large as this epsilon needs; raise it")
        return self

    @property
    def per_coordinate(self) -> float:
        """The paper's epsilon, 1/b."""
        if self.epsilon is not None:
            return self.epsilon
        if self.total_epsilon is None:
            raise RuntimeError("one of the two is given")
        return before_dropout(self.total_epsilon, self.word_dropout) / self.dimension

    def channel(self) -> LaplaceChannel:
        """Channel of a text."""
        return LaplaceChannel(1.0 / self.per_coordinate, self.word_dropout, self.noise == "shared")


class DPNR(RepresentationMechanism[DPNRParams]):
    """Word dropout, extraction, normalisation to [0, 1], Laplace noise; trained with the same.

    Training (Algorithm 1) draws fresh noise and drops other words at every step, and keeps the
    epoch that does best on the rows of `valid`, which are perturbed too. At inference
    (Algorithm 2) the owner of a text sends its perturbed representation, once.
    """

    name = "dpnr"
    version = 3
    unit = "word"
    fresh_noise = True
    source = "Lyu, He, Li 2020, Algorithms 1 and 2"
    Params = DPNRParams

    def plan(self, stats: CorpusStats) -> Events:
        """One noisy vector for a text that is sent; nothing protects the training text."""
        return self._events(self.params.channel(), self.params.dimension)

    def _events(self, channel: LaplaceChannel, dimension: int) -> Events:
        """Events of one text through a channel of `dimension` coordinates."""
        epsilon = spent([1.0 / channel.scale], self.params.per_coordinate)
        (sent,) = _system(epsilon, dimension, channel.word_dropout).plan()
        changes: dict[str, object] = {"assumptions": (*sent.assumptions, *ASSUMPTIONS)}
        if channel.shared:
            changes = {"assumptions": (), "event": NonPrivate(reason=SHARED)}
        # Both are of one release, each for its own unit, also where no pipeline names the stage.
        return (
            sent.model_copy(update={**changes, "stage": self.name}),
            PrivacyEvent(unit="record", event=NonPrivate(reason=TRAINING), stage=self.name),
        )

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """The paper's: the epsilon of one coordinate."""
        p = self.params
        return _system(p.per_coordinate, p.dimension, p.word_dropout).claims()

    def readings(self) -> tuple[Reading, ...]:
        """The epsilon of one coordinate, which the paper calls that of the text."""
        return (("one coordinate of the representation", self.params.per_coordinate),)

    def channel(self) -> LaplaceChannel:
        """Word dropout, normalisation and noise at these parameters."""
        return self.params.channel()

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Robust training (Algorithm 1).

        Raises:
            CapabilityError: if the learner's network is not in two parts.
            InputError: if `dimension` is not that of its representations.
        """
        from uedp_bench.api.networks import on_device, row_seeds
        from uedp_bench.mechanisms.representations.split_training import (
            SplitTraining,
            in_two_parts,
            train_split,
        )

        p, channel = self.params, self.channel()
        split = in_two_parts(learner, self.name)
        if split.width != p.dimension:
            raise InputError(
                f"{self.name}.dimension is {p.dimension}, but the model's representation has "
                f"{split.width} coordinates; set {self.name}.dimension to {split.width}"
            )

        def losses(module: nn.Module, rows: IntArray, draws: Draws) -> Losses:
            if p.word_dropout > 0:
                batch = split.masked_batch(rows, draws.rng, p.word_dropout)
            else:
                batch = split.batch(rows, row_seeds(draws.rng, rows.shape))
            batch = on_device(batch, run.device)
            z = channel.perturb_in_training(split.encode(module, batch), draws.noise)
            return split.head_losses(module, z, batch)

        plan = SplitTraining(p.epochs, p.batch_size, p.learning_rate, p.weight_decay)
        module = train_split(plan, split, run, losses, losses)
        run.note(noise_scale=channel.scale)
        # What serves the release asks for the same channel.
        return module, self._events(channel, split.width)


def _system(epsilon: float, dimension: int, word_dropout: float) -> published_systems.DPNR:
    params = {"epsilon": epsilon, "dimension": dimension, "word_dropout": word_dropout}
    system: published_systems.DPNR = published_systems.DPNR.create(params)
    return system
