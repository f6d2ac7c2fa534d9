"""Attribute inference: does a released representation give away private attributes of its author?

The attack model and the empirical privacy of Lyu, He and Li 2020 (sections 4.2, 4.3 and 4.5), and
the fairness of the main task over the same attributes (section 4.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import (
    Attack,
    BoolArray,
    CapabilityError,
    Corpus,
    Estimate,
    FloatArray,
    InputError,
    IntArray,
    Leakage,
    Metric,
    Planted,
    Release,
    equals,
)
from uedp_bench.api.capabilities import Classifier, Encoder, Published
from uedp_bench.api.statistics import mean_estimate, range_estimate, sum_of_ratios_estimate
from uedp_bench.api.text import or_alone
from uedp_bench.attacks._language_model import (
    METRICS,
    LanguageModelParams,
    check_destination,
    unread,
)
from uedp_bench.attacks._true_classes import true_classes
from uedp_bench.attacks.representations.empirical_privacy import (
    PRESENCE,
    Colour,
    Inferred,
    Means,
    Method,
    accuracies,
    describe,
    empirical_privacy,
    projection,
)
from uedp_bench.attacks.representations.people import (
    draw_people,
    infer_by_language_model,
    risk_by_representations,
)
from uedp_bench.attacks.representations.perceptron import (
    Examples,
    Perceptron,
    PerceptronParams,
    Seen,
    check_splits,
    fit,
    see,
)
from uedp_bench.errors import nearest

if TYPE_CHECKING:
    from uedp_bench.api import Run

Fairness = tuple[dict[str, Estimate], dict[str, Any]]


def fairness(release: Release, corpus: Corpus, test: Seen, rng: np.random.Generator) -> Fairness:
    """Main-task accuracy on the released test rows, by group of every declared attribute.

    The fairness tables of Lyu, He and Li 2020 (section 4.6, Tables 6 and 7). The gap is the
    accuracy of the best group minus that of the worst; its interval holds for all pairs of groups
    at once.

    Returns:
        `fairness_gap_<attribute>` of each attribute with two groups or more but the one that is
        predicted, and details. Both are empty for a release that is no classifier, and where no
        test row has a class.

    Raises:
        InputError: if the release's log-probabilities are NaN.
    """
    target = release.target
    if not isinstance(release, Classifier) or (target == "label" and corpus.labels is None):
        return {}, {}
    labels = true_classes(release, corpus, "attribute-inference")[test.rows]
    labelled = labels >= 0
    if not labelled.any():
        return {}, {}
    logprobs = np.asarray(release.class_logprobs(test.shown))
    if np.isnan(logprobs).any():
        raise InputError("attribute-inference: class log-probabilities of the test split have NaN")
    correct = (logprobs.argmax(axis=1) == labels)[labelled].astype(np.float64)
    rows = test.rows[labelled]
    users = or_alone(corpus.users[rows])
    metrics, tables = {}, {}
    for name, names in corpus.attribute_names.items():
        if name == target:  # by its own classes, accuracy says nothing of fairness
            continue
        groups = corpus.attributes[name][rows]
        tables[name] = _table(correct, groups, names, users, rng)
        gap = _gap(correct, groups, users, rng)
        if gap is not None:
            metrics[f"fairness_gap_{name}"] = gap
    return metrics, {
        "main_task_accuracy": mean_estimate(correct, rng, users).model_dump(mode="json"),
        "main_task_by_group": tables,
    }


def _table(
    correct: FloatArray,
    groups: IntArray,
    names: tuple[str, ...],
    users: IntArray,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Share and accuracy of each group that has rows; `difference` is to the first of them."""
    present = [code for code in range(len(names)) if (groups == code).any()]
    grouped = int((groups >= 0).sum())
    out: dict[str, Any] = {}
    for code in present:
        inside = groups == code
        accuracy = mean_estimate(correct[inside], rng, users[inside])
        out[names[code]] = {
            "rows": int(inside.sum()),
            "share": float(inside.sum() / grouped),
            "accuracy": accuracy.model_dump(mode="json"),
        }
        if code != present[0]:
            difference = _difference(correct, (inside, groups == present[0]), users, rng)
            out[names[code]]["difference"] = difference.model_dump(mode="json")
    return out


def _gap(
    correct: FloatArray, groups: IntArray, users: IntArray, rng: np.random.Generator
) -> Estimate | None:
    present = np.unique(groups[groups >= 0])
    if len(present) < 2:
        return None
    inside = (groups == present[:, None]).astype(np.float64)
    return range_estimate(inside * correct, inside, rng, users)


def _difference(
    correct: FloatArray,
    pair: tuple[BoolArray, BoolArray],
    users: IntArray,
    rng: np.random.Generator,
) -> Estimate:
    inside = np.stack(pair).astype(np.float64)
    return sum_of_ratios_estimate(inside * correct, inside, (1.0, -1.0), rng, users)


View = Literal["released", "row-centred"]


class AttributeInferenceParams(LanguageModelParams, PerceptronParams):
    """Parameters of `attribute-inference`."""

    views: tuple[View, ...] = Field(
        default=("released", "row-centred"),
        min_length=1,
        description="what the attacker learns from: representations as released, or less the mean "
        "of their row, which undoes noise that all coordinates share; of several, for each "
        "attribute the one with the least valid loss",
    )

    attributes: tuple[str, ...] = Field(
        default=(),
        description="attributes to infer; by default all that the source declares, but what the "
        "task predicts",
    )
    empirical: Literal["auto", "accuracy", "f1"] = Field(
        default="auto",
        description="empirical privacy is 1 - mean accuracy, or 1 - F1 of presence over all "
        "attributes; auto: F1 where the classes of every attribute are absent and present",
    )
    projection: Literal["none", Method] = Field(
        default="none",
        exclude_if=equals("none"),
        description="keeps a map of the released test rows in two dimensions with their classes of "
        "every attribute, which whoever has the result then sees; none: nothing of single rows is "
        "kept",
    )
    projection_rows: int = Field(
        default=500,
        ge=1,
        le=5000,
        exclude_if=equals(500),
        description="test rows on the map at most, drawn uniformly",
    )

    @model_validator(mode="after")
    def _rows_of_a_map(self) -> AttributeInferenceParams:
        if self.projection == "none" and self.projection_rows != 500:
            raise ValueError(
                f"projection_rows is {self.projection_rows}, and projection is 'none': set it to "
                "'pca' or 'tsne', or leave projection_rows out"
            )
        return self


class AttributeInference(Attack[AttributeInferenceParams]):
    """Infers each private attribute by a perceptron on the released representation.

    One attacker for each attribute is fitted on the released train split, chosen by the valid
    split and scored on the released test split. `empirical_privacy_released` is that of the
    paper's attacker, who learns from representations as they are. Where attributes are facts about
    people, the rows of a person are put together, too, and `reidentification_risk` says how far
    what was inferred correctly singles people out. With `attacker: llm`, a language model reads the
    published text of people instead.
    """

    name = "attribute-inference"
    version = 3
    source = (
        "Lyu, He and Li 2020, Differentially Private Representation for NLP, sections 4.2 to 4.6; "
        "Coavoux et al. 2018"
    )
    Params = AttributeInferenceParams
    metrics = (
        Metric.rate("empirical_privacy", "empirical privacy", "1 - the attacker's accuracy, mean "
                    "over private attributes", "higher", main=True),
        Metric.rate("empirical_privacy_majority", "majority's privacy", "the same of always "
                    "guessing the most frequent class: what hides all", main=True),
        Metric.rate("empirical_privacy_*", "empirical privacy", "1 - the attacker's score, as "
                    "named", "higher"),
        Metric.rate("accuracy_*_unprotected", "accuracy on *, unprotected", "of the same language "
                    "model that reads the original text"),
        Metric.rate("accuracy_*", "accuracy", "of guessing the attribute", "lower"),
        Metric.rate("majority_*", "majority", "of always guessing the attribute's most frequent "
                    "class"),
        Metric.rate("fairness_gap_*", "fairness gap", "largest difference of the task's accuracy "
                    "between groups", "lower"),
        Metric.rate("reidentification_risk", "re-identification risk", "mean over people of one "
                    "over those who have all values that were inferred correctly", "lower",
                    floor_metric="reidentification_risk_shuffled"),
        Metric.rate("reidentification_risk_unprotected", "re-identification risk, unprotected",
                    "of the same language model that reads the original text"),
        Metric.rate("reidentification_risk_shuffled", "re-identification risk, shuffled", "of what "
                    "was inferred about somebody else"),
        Metric.rate("reidentification_risk_chance", "re-identification risk, chance", "one over "
                    "all people"),
        *METRICS,
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Encoder,)

    def required_capabilities(self) -> tuple[type, ...]:
        """Published text for a language model, else representations."""
        return (Published,) if self.params.attacker == "llm" else self.needs

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """The reason why a language model cannot read what was published; None if it can."""
        return unread(self.params, release)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plants nothing; refuses before training what could not be attacked after it.

        Raises:
            InputError: for no attributes, an unknown one, one with a single class, or one that F1
                does not fit.
        """
        names = self._attributes(corpus)
        self._mean(names, corpus)
        by_llm = self.params.attacker == "llm"
        if by_llm:
            check_destination(self.params, self.name)
            draw_people(corpus, names, self.params.people, rng)
        else:
            check_splits(corpus, self.name)
        for name in names:
            for split in ("train",) if by_llm else ("train", "test"):
                _check_classes(corpus, name, corpus.attributes[name][corpus.where(split)], split)
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Fits one attacker for each attribute, or asks a language model, and scores them."""
        if self.params.attacker == "llm":
            names = self._private(release, corpus)
            return infer_by_language_model(
                self.params, names, self._mean(names, corpus), release, corpus, run
            )
        if not isinstance(release, Encoder):
            raise CapabilityError(f"{self.name} needs an Encoder, not {type(release).__name__}")
        names = self._private(release, corpus)
        most = self.params.train_rows
        sample = None if most is None else (most, run.shared(self.name, "sample"))
        train = see(release, corpus, "train", self.name, sample)
        valid, test = (see(release, corpus, split, self.name) for split in ("valid", "test"))
        attackers = []
        for number, name in enumerate(names):
            run.progress(f"{self.name}: {name}", number, len(names))
            attackers.append(self._infer(name, corpus, (train, valid, test), run))
        rng = run.shared(self.name, "bootstrap")
        metrics, details = empirical_privacy(attackers, self._mean(names, corpus), rng)
        metrics |= accuracies(attackers, rng)
        gaps, groups = fairness(release, corpus, test, rng)
        logits = [
            one.models[one.view].logits(_inputs_as(one.view, test.inputs)) for one in attackers
        ]
        risk, people = risk_by_representations(attackers, logits, (corpus, test.rows), run)
        details["rows"] = {"train": len(train), "valid": len(valid), "test": len(test)}
        details["attributes"] = {one.name: describe(one, rng) for one in attackers}
        if self.params.projection != "none":
            details["projection"] = projection(
                self.params.projection,
                test.inputs,
                {one.name: Colour(one.classes, one.truth) for one in attackers},
                _label(release, corpus, test),
                (self.params.projection_rows, run.shared(self.name, "projection")),
            )
        return Leakage(metrics | gaps | risk, details | groups | people)

    def _private(self, release: Release, corpus: Corpus) -> tuple[str, ...]:
        """Attributes to infer: what a classifier is there to predict only where it is named."""
        names = self._attributes(corpus)
        if self.params.attributes:
            return names
        return tuple(name for name in names if name != release.target) or names

    def _attributes(self, corpus: Corpus) -> tuple[str, ...]:
        declared = tuple(corpus.attribute_names)
        if not declared:
            raise InputError(f"{self.name}: the source declares no private attributes to infer")
        for name in self.params.attributes:
            if name not in declared:
                near = nearest(name, declared)
                hint = f"did you mean {near!r}?" if near else f"it has {', '.join(declared)}"
                raise InputError(
                    f"{self.name}.attributes: the source has no attribute {name!r}; {hint}"
                )
        return tuple(dict.fromkeys(self.params.attributes)) or declared

    def _infer(
        self, name: str, corpus: Corpus, seen: tuple[Seen, Seen, Seen], run: Run
    ) -> Inferred:
        classes, column = corpus.attribute_names[name], corpus.attributes[name]
        sides = []
        for side, split in zip(seen, ("train", "valid"), strict=False):
            targets = column[side.rows]
            if split == "train":
                _check_classes(corpus, name, targets, split)
            elif not (targets >= 0).any():
                raise InputError(f"{self.name}: {name!r} is unknown in all of the {split} split")
            sides.append(Examples(side.inputs[targets >= 0], targets[targets >= 0]))
        truth = column[seen[2].rows]
        _check_classes(corpus, name, truth, "test")
        # A class that training rows lack gets half a row, so that its probability is not 0.
        counts = np.bincount(sides[0].targets, minlength=len(classes)) + 0.5
        prior = np.log(counts / counts.sum())
        use = f"{self.name}/{name}"
        models: dict[str, Perceptron] = {
            view: fit((_seen_as(view, sides[0]), _seen_as(view, sides[1])), prior, self.params,
                      run, use)
            for view in dict.fromkeys(self.params.views)
        }  # fmt: skip
        guesses = {
            view: model.logits(_inputs_as(view, seen[2].inputs)).argmax(axis=1)
            for view, model in models.items()
        }
        common = int(np.bincount(truth[truth >= 0]).argmax())
        return Inferred(
            name,
            classes,
            truth,
            guesses,
            min(models, key=lambda view: min(models[view].losses)),
            np.full(len(truth), common),
            or_alone(corpus.users[seen[2].rows]),
            models,
        )

    def _mean(self, names: tuple[str, ...], corpus: Corpus) -> Means:
        """Choose the definition of empirical privacy that applies."""
        others = [name for name in names if corpus.attribute_names[name] != PRESENCE]
        if self.params.empirical == "f1" and others:
            raise InputError(
                f"{self.name}.empirical is 'f1', which needs attributes with the classes absent "
                f"and present; {others[0]!r} is none: use 'accuracy'"
            )
        if self.params.empirical == "auto":
            return "accuracy" if others else "f1"
        return self.params.empirical


def _label(release: Release, corpus: Corpus, test: Seen) -> Colour | None:
    """Target of the main task for the test rows; None without one."""
    target = release.target
    if target != "label":
        return Colour(corpus.attribute_names[target], corpus.attributes[target][test.rows])
    if corpus.labels is None:
        return None
    return Colour(corpus.label_names, corpus.labels[test.rows])


def _inputs_as(view: str, inputs: FloatArray) -> FloatArray:
    return inputs if view == "released" else inputs - inputs.mean(axis=1, keepdims=True)


def _seen_as(view: str, examples: Examples) -> Examples:
    return Examples(_inputs_as(view, examples.inputs), examples.targets)


def _check_classes(corpus: Corpus, name: str, values: IntArray, split: str) -> None:
    present = np.unique(values[values >= 0])
    if len(present) < 2:
        names = corpus.attribute_names[name]
        only = f"one class ({names[present[0]]})" if len(present) else "no known value"
        raise InputError(
            f"attribute-inference.attributes: {name!r} has {only} in the {split} split; two are "
            "needed: name the attributes to infer without it"
        )
