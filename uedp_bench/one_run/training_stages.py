"""The training stages of a run, in the order in which its task gives them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.contracts.mechanism import Events, ServingMechanism
from uedp_bench.contracts.model import LanguageModel
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import TrainedStage
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus.keys import normal_surface
from uedp_bench.errors import CapabilityError, InputError, PrivacyError
from uedp_bench.training.plain import train_plain, train_public

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.contracts.capabilities import Vocabulary
    from uedp_bench.contracts.learner import Learner
    from uedp_bench.contracts.task import Task
    from uedp_bench.corpus import Corpus
    from uedp_bench.one_run.components import Components


Weights = Mapping[str, "Tensor"]
"""Copies of a module's parameters, on the CPU."""


def weights_of(module: nn.Module) -> Weights:
    """A copy of the weights, which training in place does not change."""
    return {name: p.detach().cpu().clone() for name, p in module.named_parameters()}


def _weight_change(trained: nn.Module, before: Weights) -> NDArray[np.float32] | None:
    """(d,) trained minus initial weights, in the order of the trainable parameters.

    Returns:
        None for a module of other parameters than the initial one, such as several modules in one.
    """
    after = {name: p for name, p in trained.named_parameters() if p.requires_grad}
    if not after or any(
        name not in before or p.shape != before[name].shape for name, p in after.items()
    ):
        return None
    parts = [
        (p.detach().cpu().double() - before[name].double()).reshape(-1) for name, p in after.items()
    ]
    return np.concatenate([part.numpy().astype(np.float32) for part in parts])


def train_plainly(learner: Learner, run: Run, *, keep: bool) -> nn.Module:
    """The module after a stage that no mechanism trains, in evaluation mode; it has no events.

    Args:
        learner: learner of a public or a downstream stage, with its schedule.
        run: the order of rows is that of its seed, the same for all mechanisms.
        keep: no private row was seen before, so that other runs may read what a public stage
            trained.
    """
    if learner.schedule is None:
        raise RuntimeError(f"a {learner.role} stage was checked to have a schedule")
    if learner.role == "public":
        return train_public(learner.schedule, learner, run, keep=keep)
    rng = run.shared(learner.role, "batches")
    return train_plain(learner.schedule, learner, run, phase=learner.role, rng=rng)


LONG = 8
"""Words of a text that two people hardly write alike."""

MOST_REPEATED = 0.01
"""Share of the long rows of a second source that may be those of private rows by chance."""


class TrainedStages(NamedTuple):
    """Release, events and record of the trained stages of a task.

    Attributes:
        release: release of the last stage; None for a task without stages.
        events: privacy events of each private stage.
        floor: model that no private row has touched, where it saw any text at all and somebody
            wants it.
        pretraining: public text that the model saw before, and its schedule.
        record: record of the stages in a result, where they are not the usual ones.
    """

    release: Release | None = None
    events: Sequence[Events] = ()
    floor: Release | None = None
    pretraining: Mapping[str, Any] = MappingProxyType({})
    record: tuple[TrainedStage, ...] | None = None


def train_stages(
    parts: Components, corpus: Corpus, vocabulary: Vocabulary | None, run: Run, *, keep_floor: bool
) -> TrainedStages:
    """Train the stages of a task, one after the other.

    Args:
        parts: components: the task gives the learners, the pipeline the trainers of private stages.
        corpus: corpus that the task may see: the published splits train, valid and public.
        vocabulary: vocabulary of the task.
        run: run around the stages.
        keep_floor: True to keep the floor.

    Raises:
        CapabilityError: if the learners are not those that the task declared, one cannot start
            from what the stage before trained, or a mechanism cannot answer for the last one.
        PrivacyError: if a stage without a mechanism holds private rows, or their texts.
    """
    learners = _checked(parts.task, corpus, vocabulary, run)
    _check_served(learners, parts.pipeline.servers)
    has_public_stage = any(learner.role != "private" for learner in learners)
    elsewhere = parts.pipeline.elsewhere is not None
    followed = (
        keep_floor and not elsewhere and (has_public_stage or _predicts_untrained(parts.task.model))
    )
    floor = _Floor(run) if followed else None
    private, numbers = iter(parts.pipeline.training), Counter[str]()
    module: nn.Module | None = None
    release: Release | None = None
    events: list[Events] = []
    record: list[TrainedStage] = []
    pretraining: dict[str, Any] = {}
    for learner in learners:
        numbers[learner.role] += 1
        if floor is not None:
            floor.follow(learner, module, last=learner is learners[-1])
        if module is not None:
            learner.start_from(module)
        if learner.role == "private":
            stage = next(private)
            record.append(TrainedStage(role="private", stage=stage.name, rows_of=stage.rows))
            # Users of two sources share numbers, and audits plant in the run's own.
            injected = run.injected if stage.rows == "source" else ()
            inner = run.within(stage.name, number=numbers["private"], injected=injected,
                               stats=stage.sizes(run.stats))  # fmt: skip
            before = weights_of(learner.module) if inner.injected else None
            module, stage_events = stage.trainer.train(learner, learner.corpus, inner)
            events.append(stage_events)
        else:
            stage_record = _stage_record(learner)
            record.append(stage_record)
            if learner.role == "public":
                pretraining = {"rows": stage_record.rows, **stage_record.schedule}
            inner = run.within(learner.role, number=numbers[learner.role])
            module, before = train_plainly(learner, inner, keep=not numbers["private"]), None
        if learner is learners[-1]:
            release = learner.release(module)
            if seen := [s.trainer.shows for s in parts.pipeline.training if s.trainer.shows]:
                release = release.showing(view=f"{release.view} (and {'; '.join(seen)})")
            if before is not None and (update := _weight_change(module, before)) is not None:
                release = release.showing(update=update)
        elif any(module is other.module for other in learners):  # trained in place, and shared
            module = copy.deepcopy(module)
    usual = [stage.role for stage in record] in ([], ["private"], ["public", "private"])
    kept = None if floor is None else floor.release
    if keep_floor and elsewhere:
        kept = _base_release(parts.task, learners[-1], corpus, vocabulary, run)
    return TrainedStages(release, events, kept, pretraining, None if usual else tuple(record))


_COMPARED = 100
"""Texts that two models must split into the same tokens."""


def _base_release(
    task: Task[Any], trained: Learner, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
) -> Release | None:
    """The model that somebody trained on, as it was before; None where nobody says which it was.

    Diagnostics get `weights_of_base`, the share of weights that training did not move: 1 where
    nothing was trained, near 0 where another model is named.

    Raises:
        InputError: if the two models do not read texts alike.
    """
    model = task.model.before_training()
    if model is None:
        return None
    before = copy.copy(task)
    before.model = model
    read = before.vocabulary(corpus)
    texts = corpus.take(np.arange(min(len(corpus), _COMPARED))).texts
    if vocabulary is None or read is None or read.encode(texts) != vocabulary.encode(texts):
        raise InputError(
            f"{model.name}.base {model.params.pretrained!r} does not split texts into tokens as "
            f"{task.model.params.pretrained!r} does: it is another model, or its tokenizer changed"
        )
    (learner,) = before.stages(corpus, read, run)
    run.note(weights_of_base=_equal_share(trained.module, learner.module))
    release: Release = learner.release(learner.module.to(run.device).eval())
    return release


def _equal_share(one: nn.Module, other: nn.Module) -> float:
    """Share of the weights of a network that another one has too, at the same places."""
    other_weights = dict(other.named_parameters())
    # peft moves a weight that it adapts into `base_layer`; its own have no twin.
    names = [(name.replace(".base_layer", ""), each) for name, each in one.named_parameters()]
    weights = [(each, other_weights.get(name)) for name, each in names]
    same = sum(
        int((each == twin).sum()) for each, twin in weights
        if twin is not None and each.shape == twin.shape
    )  # fmt: skip
    return same / max(sum(each.numel() for each, _ in weights), 1)


class _Floor:
    """The model that no private row has touched, led through all stages but the private ones.

    Attributes:
        release: release of the model, after the last stage.
    """

    def __init__(self, run: Run) -> None:
        self.release: Release | None = None
        self._run = run
        self._module: nn.Module | None = None

    def follow(self, learner: Learner, module: nn.Module | None, *, last: bool) -> None:
        """Take a stage, before it is trained; until the first private one there is nothing to do.

        Args:
            learner: learner of the stage; its weights may change.
            module: network that the stage before trained, or None.
            last: the stage makes the release.
        """
        if self._module is None and learner.role != "private":
            return
        before = module if self._module is None else self._module
        if before is not None:
            learner.start_from(before)
        run = self._run
        if learner.role == "private":
            self._module = copy.deepcopy(learner.module).to(run.device)
        else:  # what this costs and how it went is no part of the run's diary
            aside = Run(run.seed, run.stats, run.device, run.speed, progress=run.progress,
                        checkpoints=run.checkpoints)  # fmt: skip
            self._module = train_plainly(learner, aside, keep=False)
        if last:
            self.release = learner.release(self._module)


def _stage_record(learner: Learner) -> TrainedStage:
    """Record of a stage that no mechanism trains."""
    if learner.schedule is None:
        raise CapabilityError(f"a {learner.role} stage needs a schedule: no mechanism trains it")
    return TrainedStage(
        role=learner.role,
        rows_of="downstream" if learner.role == "downstream" else "source",
        rows=len(learner.corpus),
        schedule=learner.schedule.recorded(),
    )


def _checked(
    task: Task[Any], corpus: Corpus, vocabulary: Vocabulary | None, run: Run
) -> tuple[Learner, ...]:
    """Check that the learners of a task are what it declared."""
    learners = tuple(task.stages(corpus, vocabulary, run))
    roles_of_learners, declared = tuple(learner.role for learner in learners), task.roles()
    if roles_of_learners != declared:
        actual, meant = (", ".join(roles) or "none" for roles in (roles_of_learners, declared))
        raise CapabilityError(
            f"the task {task.name} has stages of the roles {actual}, and its `roles` says {meant}"
        )
    for learner in learners:
        if learner.role == "downstream" and run.downstream is None:
            raise CapabilityError(
                f"the task {task.name} has a downstream stage, and names no second source for it"
            )
        if learner.role != "private" and _holds_private(learner.corpus, corpus, run.downstream):
            raise PrivacyError(
                f"the task {task.name} trains private rows in a stage of the role {learner.role}, "
                "which no mechanism protects (rows are told apart by `Corpus.origin`)"
            )
        if learner.role == "downstream":
            _check_repeated(learner.corpus, corpus, task.name)
    return learners


def _check_repeated(rows: Corpus, corpus: Corpus, task: str) -> None:
    """Refuse rows of a second source that repeat texts of private ones.

    Two samples of one source share texts under different numbers. Some sentences are everybody's:
    short ones are left out, and a small share of long ones may be equal by chance.
    """
    private = {_long(text) for text in corpus.only("train").texts}
    texts = [text for text in map(_long, rows.texts) if text]
    repeated = sum(text in private for text in texts)
    if repeated > MOST_REPEATED * len(texts):
        raise PrivacyError(
            f"the task {task} trains {repeated:,} of {len(rows):,} rows of its second source "
            "without a mechanism, and they have the texts of private rows, whose guarantee this "
            "would break: give it rows of other people (another file, or another part of the "
            "source)"
        )


def _long(text: str) -> str:
    """The text as it is compared; empty if it is too short to belong to somebody."""
    words = normal_surface(text).split()
    return " ".join(words) if len(words) >= LONG else ""


def _check_served(learners: Sequence[Learner], servers: Sequence[ServingMechanism[Any]]) -> None:
    """Ask the first mechanism at inference, before anything is trained, if it can answer."""
    if not learners or not servers:
        return
    module = learners[-1].module
    training = module.training
    servers[0].check_learner(learners[-1])
    module.train(training)


def _holds_private(rows: Corpus, corpus: Corpus, downstream: Corpus | None) -> bool:
    """True if one of the rows is a private row of the run's corpus."""
    private = corpus.only("train", "valid")
    if downstream is not None:  # rows of two sources share numbers: texts tell them apart
        private_rows = set(zip(private.origin.tolist(), private.texts, strict=True))
        return not private_rows.isdisjoint(zip(rows.origin.tolist(), rows.texts, strict=True))
    numbers = np.setdiff1d(private.origin, corpus.only("public").origin)
    return bool(np.isin(rows.origin, numbers).any() or (rows.origin < 0).any())


def _predicts_untrained(model: Any) -> bool:
    """True if a model is a language model that was trained on public text before it came here.

    A pretrained encoder is none: the head on top of it is drawn at random.
    """
    return isinstance(model, LanguageModel) and model.brings_vocabulary()
