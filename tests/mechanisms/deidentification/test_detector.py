"""De-identification with a detector of its own: labels are neither looked at nor lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import plugged

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.events import (
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from uedp_bench.accounting.guarantee import Condition, Guarantee, general
from uedp_bench.accounting.ledger import proven
from uedp_bench.components import registry
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import (
    ComponentSpec,
    Result,
    RunError,
    RunSpec,
    TrainedStage,
    write_result,
)
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.contracts.task import Task
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.corpus.spans import LostSpans
from uedp_bench.errors import InputError
from uedp_bench.io.sealed_files import DamagedFileError, seal_folder
from uedp_bench.mechanisms.deidentification import detector
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.mechanisms.deidentification.detector import TrainedTagger
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.models.bilstm import BiLSTM
from uedp_bench.one_run.planning.account import read_events
from uedp_bench.one_run.planning.planned_mechanisms import PlannedPipeline
from uedp_bench.one_run.publishing import publish
from uedp_bench.spec.identity import component_identity, identity_parts
from uedp_bench.tasks.tagging.tagging import Tagging

STATS = CorpusStats(users=3, rows=3, sensitive_rows=3, entities=3, public=True)
TEXTS = ("today John Smith met Zyx in Oslo", "Mary came", "John Smith left")
GOLD = [(0, 6, 16, 0), (0, 21, 24, 0), (0, 28, 32, 1), (1, 0, 4, 0), (2, 0, 10, 0)]


def corpus(**columns: Any) -> Corpus:
    split = np.array([SPLITS.index(name) for name in ("train", "train", "public")])
    own = {"entities": Spans.build(TEXTS, GOLD), "entity_types": ("PER", "LOC")} | columns
    return Corpus(TEXTS, {"user": np.arange(3)}, split, **own)


def published(of: Corpus, **params: Any) -> tuple[Corpus, Run]:
    run = Run(1, STATS)
    out, _ = publish(Deidentify.create({"detector": "names", **params}), of, run)
    return out, run


def surfaces(of: Corpus) -> list[tuple[str, str]]:
    kinds = of.entities.type.tolist()
    return [(of.entity_types[kind], of.surface(at)) for at, kind in enumerate(kinds)]


def test_what_the_detector_finds_is_replaced_and_nothing_else() -> None:
    out, run = published(corpus())
    assert out.texts == ("today <PERSON> met Zyx in Oslo", "<PERSON> came", TEXTS[2])
    # The labels follow: what was hidden says what it became, what was missed what it is.
    assert surfaces(out) == [
        ("PER", "<PERSON>"), ("PER", "Zyx"), ("LOC", "Oslo"), ("PER", "<PERSON>"),
        ("PER", "John Smith"),
    ]  # fmt: skip
    assert (out.entity_types, out.detector, dict(out.layers)) == (("PER", "LOC"), None, {})
    assert run.diagnostics["entities_from"] == "names"
    measured = run.diagnostics["detection"]["recall"]
    assert (measured["PER"]["mentions"], measured["PER"]["covered"]) == (3, 2)
    assert measured["LOC"]["covered"] == 0


def test_labels_do_not_change_what_is_published() -> None:
    """The detector acts on text: planted or missing labels make no difference."""
    texts = published(corpus())[0].texts
    none = corpus(entities=Spans.none())
    assert published(none)[0].texts == texts
    lost = replace(corpus(), entities=LostSpans("somebody"))
    out, run = published(lost)
    assert out.texts == texts
    assert out.entities.lost
    assert "detection" not in run.diagnostics


def test_layers_follow_beside_the_entities() -> None:
    layer = Layer.build(TEXTS, [(0, 6, 16, 0), (0, 28, 32, 0)], ("NAME",))
    out, _ = published(corpus(layers={"gold": layer}))
    spans = out.layers["gold"].spans
    assert [out.texts[row][a:b] for row, a, b, _ in spans.mentions()] == ["<PERSON>", "Oslo"]


def test_types_are_those_of_the_detector() -> None:
    assert published(corpus(), entity_types=["PERSON"])[0].texts[1] == "<PERSON> came"
    with pytest.raises(InputError, match=r"names.*type 'PER'.*'PERSON'"):
        published(corpus(), entity_types=["PER"])


def test_a_row_depends_on_its_text_alone() -> None:
    whole = published(corpus(), style="surrogate")[0].texts
    alone = published(corpus().take(np.array([1])), style="surrogate")[0].texts
    assert alone[0] == whole[1]


def test_what_it_finds_can_be_asked(tmp_path: Path) -> None:
    def findings(**params: Any) -> list[tuple[str, str]]:
        layer = Deidentify.create(params).entity_detector().find(corpus())
        return [(TEXTS[row][a:b], layer.types[kind]) for row, a, b, kind in layer.spans.mentions()]

    of_names = [("John Smith", "PERSON"), ("Mary", "PERSON"), ("John Smith", "PERSON")]
    assert findings(detector="names") == of_names
    assert len(findings()) == len(GOLD)
    assert findings(entity_types=["LOC"]) == [("Oslo", "LOC")]
    (file := tmp_path / "list.txt").write_text("Oslo\nsmith\n")
    listed = [("Oslo", "<LISTED>")]
    assert findings(detector="names", public_list=file)[1:2] == listed
    only = findings(only_listed=True, public_list=file)
    assert only == [("Smith", "<LISTED>"), *listed, ("Smith", "<LISTED>")]


def test_it_reads_entities_only_where_they_are_its_detector() -> None:
    assert Deidentify.create({}).reads() == {"entities"}
    assert Deidentify.create({"detector": "names"}).reads() == frozenset()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"detector": "spacy"}, "pipeline=en_core_web_sm"),
        ({"pipeline": "en_core_web_sm"}, "pipeline.*corpus"),
        ({"detector": "names", "pipeline": "x"}, "pipeline.*names"),
        ({"detector": "tagger"}, "detector is tagger.*tagger"),
        ({"tagger": "x"}, "tagger.*detector is corpus"),
        ({"tagger_trained_on": "public"}, "tagger.*detector is corpus"),
        ({"detector": "names", "only_listed": True, "public_list": "x"}, "detector.*only_listed"),
        ({"detector": "nam"}, "detector"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Deidentify.create(params)


def test_specs_without_a_detector_keep_their_identity() -> None:
    assert set(Deidentify.create({}).params.model_dump(mode="json")) == {
        "style", "entity_types", "public_list", "only_listed",
    }  # fmt: skip


DELTA = 1e-5
SUPPORT = Path(__file__).parents[2] / "support"
ROUNDS = Repeated(count=30, event=PoissonSampled(rate=0.05, event=Gaussian(noise_multiplier=1.0)))
OF_RECORDS = PrivacyEvent(unit="record", event=ROUNDS, stage="dp-sgd")
CLEAR = PrivacyEvent(
    unit="user", event=NonPrivate(reason="trained without noise"), stage="noiseless"
)
DP_SGD = {"steps": 30, "batch_size": 50, "records": 1000, "noise_multiplier": 1.0}


def spec(**fields: Any) -> RunSpec:
    one = {name: ComponentSpec(name=name) for name in ("tagging", "embedded", "bilstm", "dp-sgd")}
    return RunSpec(
        task=one["tagging"], source=one["embedded"], model=one["bilstm"],
        mechanism=(one["dp-sgd"],), attacks=(), seed=1, delta=DELTA, **fields,
    )  # fmt: skip


def saved(folder: Path, events: Sequence[PrivacyEvent] = (OF_RECORDS,), **fields: Any) -> Path:
    """The folder of a run that trained a tagger."""
    (folder / "release").mkdir(parents=True)
    parts = identity_parts(fields.get("spec", spec()), "c" * 16)
    parts |= fields.pop("identity", {})
    names = dict(zip(("id", "group"), identity_of(parts), strict=True))
    record = {"status": "finished", "spec": spec(), "guarantees": proven(events, delta=DELTA)}
    record |= {"provenance": {"identity": parts}, "events": tuple(events)} | names
    result = Result(**(record | fields))
    write_result(result, folder / "result.json")
    return folder


def guarantee(folder: Path, trainer: str = "dp-sgd", **params: Any) -> Guarantee:
    """Guarantees that are proven of training behind such a detector."""
    parts = ["deidentify", trainer]
    own = DP_SGD if trainer == "dp-sgd" else {"users": 1000, "users_per_round": 50, "rounds": 30}
    settings = {f"{trainer}.{name}": value for name, value in own.items()}
    settings_of_tagger = {"detector": "tagger", "tagger": str(folder)} | params
    settings |= {f"deidentify.{name}": value for name, value in settings_of_tagger.items()}
    events, refusals = PlannedPipeline.from_settings("+".join(parts), settings).plan()
    unit = "record" if trainer == "dp-sgd" else "user"
    return next(g for g in proven(events, delta=DELTA, refusals=refusals) if g.unit == unit)


def test_its_events_compose_with_those_of_training(tmp_path: Path) -> None:
    """Twice the same rounds are twice as many rounds."""
    promise = guarantee(saved(tmp_path / "run"))
    twice = ROUNDS.model_copy(update={"count": 60})
    assert promise.epsilon == pytest.approx(compose([twice], "add-or-remove", DELTA).epsilon)
    alone = compose([ROUNDS], "add-or-remove", DELTA).epsilon
    assert promise.epsilon > 1.2 * alone
    assert any("tagger" in text for text in promise.assumptions)
    public = guarantee(tmp_path / "run", tagger_trained_on="public")
    assert public.epsilon == pytest.approx(alone)
    # The folder of its release says the same.
    assert guarantee(tmp_path / "run" / "release").epsilon == promise.epsilon


@pytest.mark.parametrize("inside", ["", "release"])
def test_what_its_run_says_is_part_of_the_identity(tmp_path: Path, inside: str) -> None:
    """The same weights with another record have another guarantee, and are another input."""
    identities = []
    for name, events in (("one", (OF_RECORDS,)), ("other", (CLEAR,))):
        folder = saved(tmp_path / name, events) / inside
        params = {"detector": "tagger", "tagger": str(folder)}
        ref = ComponentSpec(name="deidentify", params=params)
        identities.append(component_identity(ref, registry.mechanisms))
    assert identities[0] != identities[1]
    assert str(tmp_path) not in repr(identities)


def test_a_tagger_without_noise_leaves_nothing_to_prove(tmp_path: Path) -> None:
    promise = guarantee(saved(tmp_path / "run", [CLEAR]))
    assert promise.epsilon == math.inf
    assert "without noise" in promise.reason


def test_a_tagger_of_which_nothing_is_known_leaves_nothing_to_prove(tmp_path: Path) -> None:
    promise = guarantee(tmp_path)
    assert promise.epsilon == math.inf
    assert "tagger of deidentify" in promise.reason
    assert math.isfinite(guarantee(tmp_path, tagger_trained_on="public").epsilon)


def test_a_record_without_events_leaves_nothing_to_prove(tmp_path: Path) -> None:
    """As of a record that was cut short, or whose events somebody took out."""
    promise = guarantee(saved(tmp_path / "run", (), guarantees=()))
    assert promise.epsilon == math.inf
    assert "tagger of deidentify" in promise.reason


def test_a_guarantee_for_another_unit_does_not_compose(tmp_path: Path) -> None:
    promise = guarantee(saved(tmp_path / "run"), trainer="user-dp")
    assert (promise.epsilon, promise.status) == (math.inf, "refused")
    assert "deidentify: dp-sgd" in promise.reason


def test_what_was_refused_there_is_refused_here(tmp_path: Path) -> None:
    refused = proven([OF_RECORDS], delta=DELTA, refusals=["weights are private"])
    first = guarantee(saved(tmp_path / "1", guarantees=refused))
    assert first.status == "refused"
    assert "weights are private" in first.reason
    words = {"vocabulary": {"private": True}}
    second = guarantee(saved(tmp_path / "2", events=(), provenance=words))
    assert (second.epsilon, second.status) == (math.inf, "refused")
    assert "vocabulary" in second.reason


def test_what_its_proof_assumes_is_assumed_here(tmp_path: Path) -> None:
    """Its data and its seed are no part of its events."""
    stated = [Condition("neighbours have the same canaries")]
    proofs = proven([OF_RECORDS], delta=DELTA, conditions=stated, source="os")
    folder = saved(tmp_path, guarantees=proofs, spec=spec(noise_source="os"))
    (again,) = read_events(folder / "result.json").prove(1e-6)
    assert again.assumptions == proofs[0].assumptions
    assert {*proofs[0].assumptions, *general("seed")} < {*guarantee(folder).assumptions}


def test_rows_that_it_learnt_without_protection_leave_nothing_to_prove(tmp_path: Path) -> None:
    stages = [TrainedStage(role="private", stage="dp-sgd"), TrainedStage(role="downstream", rows=9)]
    promise = guarantee(saved(tmp_path, stages=stages))
    assert (promise.epsilon, promise.status) == (math.inf, "refused")
    assert "without protection" in promise.reason


def test_a_trainer_that_nobody_reviewed_proves_nothing(tmp_path: Path) -> None:
    """Kinds of an old or forged result.json do not tell: its components do."""
    with plugged(SUPPORT / "echo.py"):
        spec_ = spec().model_copy(update={"mechanism": (ComponentSpec(name="echo"),)})
        folder = saved(tmp_path / "1", spec=spec_)
    other = guarantee(folder)
    assert (other.epsilon, other.status) == (math.inf, "refused")
    assert "mechanism echo" in other.reason
    lone = {"mechanism": [["dp-sgd", 1, {}, "0123456789abcdef"]]}
    promise = guarantee(saved(tmp_path / "2", identity=lone))
    assert (promise.epsilon, promise.status) == (math.inf, "refused")
    assert "dp-sgd" in promise.reason


def test_what_was_only_stated_there_is_not_proven_here(tmp_path: Path) -> None:
    """Names that are reviewed here may have been of other code there."""
    promises = proven([OF_RECORDS], delta=DELTA, unreviewed=["mechanism dp-sgd"])
    assert promises[0].kind == "stated"
    promise = guarantee(saved(tmp_path, guarantees=promises))
    assert (promise.epsilon, promise.status) == (math.inf, "refused")
    assert "nobody reviewed a component of its run" in promise.reason
    (listed,) = read_events(tmp_path / "result.json").prove()
    assert (listed.kind, listed.epsilon) == ("stated", promises[0].epsilon)


(GIVEN,) = proven([OF_RECORDS], delta=DELTA)
EDITED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "id": ({"id": "a" * 16}, "not the hashes"),
    "identity taken out": ({"provenance": {}}, "does not record what its id is the hash of"),
    "identity of another form": ({"identity": {"mechanism": "dp-sgd"}}, "does not record"),
    "digest in an odd place": ({"identity": {"model": ["bilstm", 1, {}, 7]}}, "does not record"),
    "digest at the end": ({"identity": {"model": ["bilstm", 1, {}, "0" * 16, 1]}}, "does not rec"),
    "component of the spec": (
        {"identity": {"mechanism": [["noiseless", 1, {}]]}}, "its spec is not that",
    ),
    "component of the spec left out": ({"identity": {"mechanism": []}}, "its spec is not that"),
    "choice among trials": (
        {"identity": {"selection": {"tried": {"model.units": [1, 2]}}}}, "its spec is not that",
    ),
    "guarantees taken out": ({"guarantees": ()}, "not what its events are worth"),
    "guarantee of other events": (
        {"guarantees": proven([CLEAR], delta=DELTA)}, "not what its events are worth",
    ),
    "guarantee that is smaller": (
        {"guarantees": [GIVEN.model_copy(update={"epsilon": 0.01})]}, "not what its events are",
    ),
    "refusal called given": (
        {"guarantees": [GIVEN.model_copy(update={"epsilon": math.inf})]}, "not what its events",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_record_proves_nothing(name: str, tmp_path: Path) -> None:
    fields, reason = EDITED[name]
    folder = saved(tmp_path / "run", **fields)
    promise = guarantee(folder)
    assert math.isinf(promise.epsilon) == (name != "nothing")
    assert reason in promise.reason
    # As a list of events, such a file says what somebody wrote.
    kinds = {one.kind for one in read_events(folder / "result.json").prove()}
    assert kinds == {"proven" if name == "nothing" else "stated"}


def test_a_tagger_of_an_older_engine_proves_nothing(tmp_path: Path) -> None:
    """Its events may be of a clipping, or of a sampling, that did not keep to them."""
    promise = guarantee(saved(tmp_path, identity={"engine": 1}))
    assert (promise.epsilon, promise.status) == (math.inf, "refused")
    assert "engine 1" in promise.reason


def test_a_lone_file_of_a_second_source_counts(tmp_path: Path) -> None:
    second = ["embedded", 1, {}, "0123456789abcdef"]
    lone = {"task": ["tagging", 1, {"downstream": second}]}
    promise = guarantee(saved(tmp_path, identity=lone))
    assert "source embedded" in promise.reason


def test_a_run_that_failed_or_is_not_there_is_an_error(tmp_path: Path) -> None:
    error = RunError(type="ValueError", message="no", phase="train")
    broken = saved(tmp_path / "1", (), status="failed", error=error, guarantees=())
    with pytest.raises(InputError, match=r"deidentify\.tagger: .*/1 failed"):
        guarantee(broken)
    with pytest.raises(InputError, match=r"deidentify\.tagger: .*none"):
        guarantee(tmp_path / "none")


class Capitals:
    """Finds capitalised words, and looks at everything that it is given."""

    types = ("NAME",)

    def spans(self, corpus: Corpus) -> Spans:
        assert (corpus.users == -1).all()
        assert not len(corpus.entities)
        hits = [
            (row, text.index(word), text.index(word) + len(word), 0)
            for row, text in enumerate(corpus.texts)
            for word in text.split()
            if word.istitle()
        ]
        return Spans.build(corpus.texts, hits)


@pytest.mark.parametrize("kind", ["capitals", "other"])
def test_the_task_that_trained_it_loads_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector._loaded.cache_clear()
    loaded: list[Path] = []

    class Labels(Task[Any]):
        name = "labels"
        metrics = (Metric("f1", better="higher"),)

        def load(self, folder: Path) -> Any:
            loaded.append(folder)
            return Capitals() if kind == "capitals" else object()

    Labels.__abstractmethods__ = frozenset()
    monkeypatch.setattr(registry.tasks, "get", lambda name: Labels)
    folder = saved(tmp_path / kind)
    texts = ("call Ann now", "nobody")
    corpus = Corpus(
        texts, {"user": np.arange(2)}, np.zeros(2, dtype=np.int64),
        Spans.build(texts, [(0, 0, 4, 0)]), ("VERB",),
    )  # fmt: skip
    mechanism = Deidentify.create({"detector": "tagger", "tagger": folder})
    run = Run(1, CorpusStats(users=2, rows=2, sensitive_rows=1, entities=1, public=True))
    if kind == "other":
        with pytest.raises(InputError, match=r"deidentify\.tagger: .*other.*tagging"):
            mechanism.publish(corpus, run)
        return
    out, _ = mechanism.publish(corpus, run)
    assert out.texts == ("call <NAME> now", "nobody")
    assert loaded == [folder / "release"]
    assert out.entity_types == ("VERB",)


def test_a_saved_tagger_finds_what_it_found(tmp_path: Path) -> None:
    """The release of the task tagging as it lies on disk, without a record of its run."""
    texts = tuple(f"w{i % 3} Ann{i % 4} met nobody" for i in range(20))
    names = Spans.build(texts, [(row, 3, 7, 0) for row in range(20)])
    split = np.array([SPLITS.index("public" if row % 2 else "train") for row in range(20)])
    corpus = Corpus(texts, {"user": np.arange(20)}, split, names, ("PER",))
    tagging = Tagging.create({})
    tagging.model = BiLSTM.create({"embedding_size": 8, "units": 8, "character_filters": 0})
    run = Run(1, CorpusStats(users=10, rows=10, sensitive_rows=1, entities=1, public=True))
    (learner,) = tagging.stages(corpus, tagging.vocabulary(corpus), run)
    fit = Noiseless.create({"epochs": 20, "batch_size": 5, "learning_rate": 0.05})
    module, _ = fit.train(learner, learner.corpus, run)
    release = learner.release(module)
    release.save(tmp_path / "saved")
    mechanism = Deidentify.create({"detector": "tagger", "tagger": tmp_path / "saved"})
    detection = mechanism.entity_detector().find(corpus)
    assert detection.spans.mentions() == release.spans(corpus).mentions()
    assert len(detection.spans) >= 10
    out, _ = mechanism.publish(corpus, run)
    assert out.texts[0] == "w0 <PER> met nobody"
    assert out.texts[1] == texts[1]  # public


def test_a_tagger_that_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    detector._loaded.cache_clear()
    release = saved(tmp_path / "run") / "release"
    (release / "weights.pt").write_bytes(b"weights")
    seal_folder(release)
    (release / "weights.pt").write_bytes(b"weighta")
    corpus = Corpus(("a",), {"user": np.zeros(1, dtype=np.int64)}, np.zeros(1, dtype=np.int64))
    with pytest.raises(DamagedFileError):
        TrainedTagger(tmp_path / "run", "private").find(corpus)
