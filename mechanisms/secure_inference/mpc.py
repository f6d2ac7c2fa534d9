"""Two parties compute a class from the model of one and the text of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from uedp_bench.api import (
    CapabilityError,
    CorpusStats,
    Events,
    InputError,
    Mechanism,
    Metric,
    Params,
    RepresentationMechanism,
    ServingMechanism,
    VocabularyMechanism,
)
from uedp_bench.api.capabilities import Compilable, PlainNetwork
from uedp_bench.api.events import Claim, PrivacyEvent, PrivacyUnit, Repeated, SecureComputation
from uedp_bench.api.networks import TextEncoder
from uedp_bench.mechanisms.secure_inference.engine import largest_truncated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from uedp_bench.api import Release, Run, Task
    from uedp_bench.api.networks import Learner
    from uedp_bench.mechanisms.secure_inference.computed_labels import ComputedAnswers, Draw
    from uedp_bench.mechanisms.secure_inference.engine.compile import SecureConfig

ASSUMPTIONS = (
    "what comes before the network (a public encoder, its normalisation) is public, and the owner "
    "of the text computes it alone",
    "the server's numbers that the dealer sends are read by nobody else",
    "inputs and all values between layers are within the declared ranges (others are refused)",
)


class MPCParams(Params):
    """Revealed answer and configuration of the protocol; all of it is public."""

    reveals: Literal["label", "logits"] = Field(
        default="label",
        description="what the owner of the text learns: the label, or a score of each class too",
    )
    truncation: Literal["dealer", "local"] = Field(
        default="dealer",
        description="how products lose their last bits: with the dealer's help, which never fails, "
        "or by each party alone, which takes fewer rounds and is rarely wrong by 2^32",
    )
    truncations: int = Field(
        default=0,
        ge=0,
        description="for local: products of one text that are truncated, at most; the network's "
        "layers tell it, and one that needs more is refused",
    )
    texts: int = Field(
        default=1,
        ge=1,
        description="for local: the probability of failure is that of so many texts",
    )
    input_range: float = Field(
        default=32.0,
        gt=0,
        description="inputs of the network are between -this and this; a standardised vector of up "
        "to 1,024 numbers always is",
    )
    value_range: float = Field(
        default=2.0**29,
        gt=0,
        le=2.0**29,
        description="no value of any layer exceeds it, whatever the input; a network that could is "
        "refused. Up to 16,382 numbers are compared at 32 bits, above at 64",
    )
    batch_rows: int = Field(
        default=200, ge=1, description="texts that are answered in the same rounds"
    )
    sigmoid: bool = Field(
        default=False,
        description="computes a sigmoid of every logit, as in the paper; it cannot change a label",
    )
    processes: bool = Field(
        default=False,
        description="each party in a process of its own, over a local socket: the same bits",
    )

    @model_validator(mode="after")
    def _fit(self) -> MPCParams:
        if self.truncation == "local" and not self.truncations:
            raise ValueError(
                "truncation is 'local': say how many truncations a text takes, at most"
            )
        if self.truncation == "dealer" and (self.truncations or self.texts > 1):
            raise ValueError("truncations and texts are for truncation 'local', which can fail")
        if self.input_range > self.value_range:
            raise ValueError(
                f"input_range {self.input_range:g} is above value_range {self.value_range:g}"
            )
        if self.sigmoid and self.reveals == "logits":
            raise ValueError("sigmoid is for a label: logits tell its values anyway")
        return self

    def config(self) -> SecureConfig:
        """Configuration of the protocol, without a stream."""
        from uedp_bench.mechanisms.secure_inference.engine.compile import SecureConfig

        return SecureConfig(
            input_range=self.input_range,
            value_range=self.value_range,
            truncation=self.truncation,
            reveals=self.reveals,
            keep_sigmoid=self.sigmoid,
            batch_rows=self.batch_rows,
            processes=self.processes,
        )


class MPC(ServingMechanism[MPCParams]):
    """Answers by a protocol in which neither party sees the other's numbers.

    The server has the trained network, the client the text. Both hold shares in Z_2^64 (16 bits
    behind the point), and a dealer who sees neither hands out correlated random numbers. Nothing is
    promised of what the answer tells, nor of those whose text trained the network: that is the
    trainer's guarantee, which stands beside this one.
    """

    name = "mpc"
    unit: ClassVar[PrivacyUnit | None] = "computation"
    source = "Adams, Melanson and De Cock 2021, section 3; Knott et al. 2021 (CrypTen)"
    Params = MPCParams
    metrics = (
        Metric("mpc_rounds", "rounds", "messages of the protocol, one after the other", "lower",
               low=0.0),
        Metric("mpc_bytes_party", "bytes a party", "sent by the party that sends more", "lower",
               low=0.0),
        Metric("mpc_bytes_dealer", "bytes of the dealer", "corrections that the dealer sent",
               "lower", low=0.0),
        Metric("mpc_texts", "texts computed on", "answered by the protocol", low=0.0),
        Metric("mpc_lan_seconds", "LAN s", "modelled: CPU seconds, rounds of 0.25 ms, 6.4 Gbit/s",
               "lower", "s", low=0.0),
        Metric("mpc_wan_seconds", "WAN s", "modelled: CPU seconds, rounds of 40 ms, 100 Mbit/s",
               "lower", "s", low=0.0),
    )  # fmt: skip

    def plan(self, stats: CorpusStats) -> Events:
        """One protocol; whom it protects from whom is in the event."""
        return self._events(self.params.config(), self.params.truncations)

    def _events(self, config: SecureConfig, truncations: int) -> Events:
        """One protocol; so many products of a text can be truncated wrongly, at most."""
        p = self.params
        what = "the label" if config.reveals == "label" else "one score of each class"
        local = config.truncation == "local"
        event = SecureComputation(
            parties=2,
            setup="trusted-dealer",
            truncations=truncations if local else 0,
            largest=largest_truncated(config.value_range) if local else 0.0,
            reveals=f"{what} (the owner of the text), nothing (the owner of the model)",
        )
        return (
            PrivacyEvent(
                unit="computation",
                adjacency="replace-one",
                event=Repeated(count=p.texts, event=event) if p.texts > 1 else event,
                assumptions=ASSUMPTIONS,
            ),
        )

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """The paper's: a view that shows nothing, and no failure."""
        return (
            Claim(
                unit="computation",
                adjacency="replace-one",
                event=SecureComputation(parties=2, setup="trusted-dealer", reveals="the label"),
                accountant="basic",
                source="Adams, Melanson and De Cock 2021, section 3",
                note="the paper truncates shares locally, and does not count what then fails",
            ),
        )

    def cannot_serve(self, task: Task[Any], before: Sequence[Mechanism[Any]]) -> str | None:
        """Tasks whose releases show no network, encoders that are trained, words of private text.

        What another mechanism at inference perturbs, or computes itself, is no plain network.
        """
        for part in before:
            if isinstance(part, RepresentationMechanism | MPC):
                return (
                    f"{part.name} answers before it, with something else than plain layers: leave "
                    "one of them out"
                )
        if task.releases and Compilable not in task.releases:
            return (
                f"the task {task.name} does not show a network of plain layers: use "
                "text-classification"
            )
        model = task.model
        if isinstance(model, TextEncoder) and not model.has_plain_layers():
            return (
                f"the encoder of {model.name} is trained, and what it gives is normalised: these "
                "are no plain layers. Use text-cnn, or a frozen encoder without a projection"
            )
        if _reads_private_words(task) and not any(
            isinstance(part, VocabularyMechanism) for part in before
        ):
            return (
                "task.vocabulary is 'private', so that words of private text decide what the owner "
                "of a text computes alone: --set task.vocabulary=public, or a file of public text"
            )
        return None

    def check_learner(self, learner: Learner) -> None:
        """Layers that no protocol computes, and more truncations than were declared."""
        release = learner.release(learner.module)
        if isinstance(release, Compilable):
            network = release.network()
            self._check_truncations(network._replace(layers=_without_weights(network.layers)))

    def serve(self, release: Release, run: Run) -> Release:
        """The release as the owner of a text meets it.

        Raises:
            CapabilityError: if it has no network of plain layers.
            InputError: for layers that no protocol computes, values that may leave their range, or
                more truncations than were declared.
        """
        served = self._served(release, lambda question: run.fresh(self.name, question))
        served.count = run.count
        protocol = served.protocol
        truncations = max(self.params.truncations, protocol.cost(1).truncations)
        served.events = (*release.events, *self._events(protocol.config, truncations))
        return served

    def serve_again(self, release: Release) -> Release:
        """See `ServingMechanism`."""
        import os

        from uedp_bench.api import Stream

        return self._served(release, lambda question: Stream(os.urandom(32), "os"))

    def _served(self, release: Release, draw: Draw) -> ComputedAnswers:
        from uedp_bench.mechanisms.secure_inference.computed_labels import (
            ComputedLabels,
            ComputedScores,
        )

        if not isinstance(release, Compilable):
            raise CapabilityError(
                f"{self.name} computes networks of plain layers, and a {type(release).__name__} "
                "does not show one: use it for text-classification"
            )
        kind = ComputedLabels if self.params.reveals == "label" else ComputedScores
        network = release.network()
        self._check_truncations(network)
        return kind(release, network, self, draw)

    def _check_truncations(self, network: PlainNetwork) -> None:
        from uedp_bench.mechanisms.secure_inference.computed_labels import compiled

        needed = compiled(network, self.params).cost(1).truncations
        declared = self.params.truncations
        if self.params.truncation == "local" and needed > declared:
            raise InputError(
                f"{self.name}.truncations is {declared:,}, and a text takes {needed:,}: --set "
                f"mechanism.{self.name}.truncations={needed}"
            )


def _reads_private_words(task: Task[Any]) -> bool:
    """True if the vocabulary is made of private text; a model may bring its own."""
    model = task.model
    own = isinstance(model, TextEncoder) and (model.frozen() or model.brings_vocabulary())
    return not own and getattr(task.params, "vocabulary", None) == "private"


def _without_weights(layers: nn.Sequential) -> nn.Sequential:
    """Copy of the layers with zero weights, so that no value leaves its range."""
    import copy

    blank = copy.deepcopy(layers)
    for weight in blank.parameters():
        weight.data.zero_()
    return blank
