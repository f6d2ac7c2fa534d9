"""A kept map shows the released test rows, in the right colours, and leaves all else as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import TableEncoder, VectorEncoder, attacked, authors, noise

from uedp_bench.attacks.representations.attribute_inference import AttributeInference
from uedp_bench.attacks.representations.empirical_privacy import Method, projection
from uedp_bench.components import registry
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import Result, read_result
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import component_identity
from uedp_bench.spec.spec import parse_spec

RESULTS = Path(__file__).parents[3] / "leaderboard" / "results" / "reproductions"
METHODS = ("pca", pytest.param("tsne", marks=pytest.mark.long))
QUICK = {"hidden": 4, "epochs": 1}
attack = partial(attacked, AttributeInference, **QUICK)


def drawn(inputs: FloatArray, method: Method, most: int = 500, seed: int = 0) -> dict[str, Any]:
    return projection(method, inputs, {}, None, (most, np.random.default_rng(seed)))


def the_map(release: Release, corpus: Corpus, seed: int = 1, **params: Any) -> dict[str, Any]:
    drawing: dict[str, Any] = attack(release, corpus, seed, **params).details["projection"]
    return drawing


def numbered(corpus: Corpus) -> FloatArray:
    """Representations whose first principal component tells the row."""
    table = 1e-3 * noise(corpus, 1, width=4)
    table[:, 2] = np.arange(len(corpus))
    return table


def rows_of(drawing: dict[str, Any], corpus: Corpus) -> list[int]:
    """Rows of the corpus that the points of a map of `numbered` are."""
    test = np.flatnonzero(corpus.where("test"))
    first = np.array(drawing["points"])[:, 0]
    return [int(row) for row in np.round(first - first.max() + test.max())]


def test_pca_finds_the_plane_in_which_the_rows_vary() -> None:
    rng = np.random.default_rng(3)
    plane = rng.normal(size=(400, 2)) * (5.0, 2.0)
    turn, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    rows = np.hstack([plane, 0.1 * rng.normal(size=(400, 18))]) @ turn + 7.0
    drawing = drawn(rows, "pca")
    order = np.random.default_rng(0).permutation(400)
    points = np.array(drawing["points"])
    for axis in (0, 1):
        together = np.corrcoef(points[:, axis], plane[order, axis])[0, 1]
        assert abs(together) > 0.995
        assert points[:, axis].std() == pytest.approx(plane[:, axis].std(), rel=0.02)
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    assert drawing["explained_variance"] == pytest.approx(values[:2] / values.sum(), rel=1e-3)
    assert "perplexity" not in drawing


def test_tsne_keeps_groups_together() -> None:
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1, 2], 60)
    rows = rng.normal(size=(180, 16)) + 12.0 * np.eye(16)[group]
    drawing = drawn(rows, "tsne")
    points, group = np.array(drawing["points"]), group[np.random.default_rng(0).permutation(180)]
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 1e9 * np.eye(180)
    assert (group[apart.argmin(axis=1)] == group).all()
    assert drawing["perplexity"] == 30.0
    assert "explained_variance" not in drawing


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_gives_the_same_map_whatever_else_is_asked(method: Method) -> None:
    corpus = authors(3)
    table = noise(corpus, 1)
    params = {"projection": method, "projection_rows": 80}
    first = the_map(TableEncoder(table), corpus, **params)
    mixed = corpus.take(np.random.default_rng(9).permutation(len(corpus)))
    assert the_map(TableEncoder(table), mixed, **params) == first
    fewer = the_map(TableEncoder(table), corpus, attributes=["age"], train_rows=50, **params)
    assert fewer["points"] == first["points"]
    assert fewer["attributes"] == {"age": first["attributes"]["age"]}
    # Rows that were published as vectors are the same rows.
    assert the_map(VectorEncoder(mixed.with_vectors(table[mixed.origin])), mixed, **params) == first
    assert the_map(TableEncoder(table), corpus, seed=2, **params)["points"] != first["points"]


def test_points_have_the_classes_of_their_rows() -> None:
    corpus = authors(2)
    assert corpus.labels is not None
    hidden = np.where(np.arange(len(corpus)) % 5 == 0, -1, corpus.attributes["sex"])
    corpus = replace(corpus, attributes=corpus.attributes | {"sex": hidden})
    drawing = the_map(TableEncoder(numbered(corpus)), corpus, projection="pca")
    rows = rows_of(drawing, corpus)
    assert sorted(rows) == np.flatnonzero(corpus.where("test")).tolist()
    assert rows != sorted(rows), "the order of points must not tell the row"
    assert drawing["attributes"] == {
        "sex": {"classes": ["f", "m"], "labels": hidden[rows].tolist()},
        "age": {"classes": ["20", "30", "40"], "labels": corpus.attributes["age"][rows].tolist()},
    }
    assert -1 in drawing["attributes"]["sex"]["labels"]
    assert drawing["labels"] == {"classes": ["a", "b", "c"], "labels": corpus.labels[rows].tolist()}
    assert (drawing["method"], drawing["view"], drawing["rows"]) == ("pca", "released", 300)
    without = replace(corpus, labels=None, label_names=())
    assert "labels" not in the_map(TableEncoder(numbered(corpus)), without, projection="pca")


def test_what_the_task_predicts_are_the_labels_also_where_it_is_an_attribute() -> None:
    corpus = authors(2)
    release = TableEncoder(numbered(corpus))
    release.target = "age"  # type: ignore[attr-defined]
    drawing = the_map(release, corpus, projection="pca")
    assert list(drawing["attributes"]) == ["sex"]
    ages = corpus.attributes["age"][rows_of(drawing, corpus)]
    assert drawing["labels"] == {"classes": ["20", "30", "40"], "labels": ages.tolist()}


@pytest.mark.parametrize("method", METHODS)
def test_no_more_rows_than_asked_for_are_drawn(method: Method) -> None:
    rows = np.random.default_rng(1).normal(size=(90, 3))
    for most in (1, 40, 5000):
        drawing = drawn(rows, method, most)
        assert drawing["rows"] == len(drawing["points"]) == min(most, 90)
    corpus = authors(0)
    table = numbered(corpus)
    few = {"projection": "pca", "projection_rows": 30}
    ends = [the_map(TableEncoder(table), corpus, seed, **few)["points"] for seed in range(4)]
    # Uniform draws of 30 from 300 rows in a line are 300 / sqrt(12) wide; the first 30 are not.
    assert all(60 < np.std(points, axis=0)[0] < 115 for points in ends)


DEGENERATE: dict[str, FloatArray] = {
    "one row": np.array([[0.3, 4.0, 2.0]]),
    "two rows": np.array([[0.3, 4.0, 2.0], [1.0, 4.0, 2.5]]),
    "three rows": np.array([[0.3, 4.0], [1.0, 4.0], [0.0, 9.0]]),
    "fewer rows than the perplexity": np.random.default_rng(1).normal(size=(20, 5)),
    "one coordinate": np.random.default_rng(1).normal(size=(40, 1)),
    "all rows equal": np.full((40, 3), 0.1),
    "two different rows": np.eye(2)[np.arange(40) % 2],
    "one row far away": np.vstack([np.zeros((39, 3)), [[1e9, 0.0, 0.0]]]),
    "large numbers": 1e200 * np.random.default_rng(1).normal(size=(40, 5)),
    "small numbers": 1e-200 * np.random.default_rng(1).normal(size=(40, 5)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_representations_have_a_map_of_finite_numbers(case: str, method: Method) -> None:
    rows = DEGENERATE[case]
    drawing = drawn(rows, method)
    points = np.array(drawing["points"])
    assert points.shape == (len(rows), 2)
    assert np.isfinite(points).all()
    differ = bool((rows != rows[0]).any())
    assert bool(points.any()) == differ
    if method == "tsne":
        assert drawing["perplexity"] == min(30.0, max(1.0, (len(rows) - 1) / 3))
        return
    explained = sum(drawing["explained_variance"])
    assert (0.3 < explained <= 1.0 + 1e-12) if differ else explained == 0.0
    if differ and min(rows.shape) <= 2:
        assert explained == pytest.approx(1.0)
    if case == "one coordinate":
        assert (points[:, 1] == 0).all()


TOO_LARGE = {
    "a difference": np.array([[1.7e308], [1.7e308], [-1.7e308]]),
    "a distance": 1.7e308 * np.outer([1.0, 0.0, 0.5], np.ones(16)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", TOO_LARGE)
def test_numbers_too_large_to_draw_are_refused(case: str, method: Method) -> None:
    with pytest.raises(InputError, match=r"projection: .*1\.7e\+308"):
        drawn(TOO_LARGE[case], method)


def test_a_map_that_diverges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sklearn.manifold.TSNE.fit_transform", lambda self, rows: np.full((len(rows), 2), np.nan)
    )
    with pytest.raises(InputError, match="t-SNE diverged; use 'pca'"):
        drawn(np.eye(5), "tsne")


def test_numbers_have_four_digits() -> None:
    rows = np.array([[-2.0, 0.0], [2.0, 0.0], [1 / 3, 0.0]])
    drawing = drawn(rows, "pca")
    assert drawing["points"] == json.loads(json.dumps(drawing["points"]))
    assert {abs(x) for x, _ in drawing["points"]} == {2.111, 1.889, 0.2222}


def test_results_without_a_map_keep_their_identity_and_their_numbers() -> None:
    stored = load_results([RESULTS / "dpnr-ag"])
    assert stored
    for result in stored:
        (before,) = result.spec.attacks
        assert "projection" not in before.params
        (run,) = expand(parse_spec(result.spec.model_dump(mode="json")))
        assert run.attacks == (before,)
        same = component_identity(run.attacks[0], registry.attacks)
        assert same == ["attribute-inference", 3, before.params]
    corpus = authors(0)
    plain = attack(TableEncoder(noise(corpus, 1)), corpus)
    assert "projection" not in plain.details
    drawn_too = attack(TableEncoder(noise(corpus, 1)), corpus, projection="pca")
    assert drawn_too.metrics == plain.metrics
    del drawn_too.details["projection"]
    assert drawn_too.details == plain.details


def test_specs_name_a_map_and_its_rows_only_where_they_differ_from_the_default() -> None:
    def params(**fields: Any) -> dict[str, Any]:
        values = AttributeInference.create(fields).params.model_dump(mode="json")
        return {key: values[key] for key in values if key.startswith("projection")}

    assert params() == params(projection="none", projection_rows=500) == {}
    assert params(projection="tsne") == {"projection": "tsne"}
    both = {"projection": "pca", "projection_rows": 80}
    assert params(**both) == both
    with pytest.raises(InputError, match=r"projection_rows is 80.*'none'"):
        params(projection_rows=80)
    with pytest.raises(InputError, match=r"projection is 'umap': .*'pca'"):
        params(projection="umap")
    for rows in (0, 5001):
        with pytest.raises(InputError, match=f"projection_rows is {rows}"):
            params(projection="pca", projection_rows=rows)


def benchmark(out: Path, **params: Any) -> Result:
    spec = {
        "task": {"name": "text-classification"},
        "source": {
            "name": "embedded",
            "params": {"users": 90, "valid_users": 10, "test_users": 20, "public_users": 25},
        },
        "model": {"name": "bilstm", "params": {"units": 4, "embedding_size": 4}},
        "mechanisms": [{"name": "dpnr", "params": {"epsilon": 5, "dimension": 8, "epochs": 1}}],
        "attacks": [{"name": "attribute-inference", "params": QUICK | params}],
    }
    (run,) = expand(parse_spec(spec))
    result = execute(run, Execution(out=out, device="cpu", keep_release=False))
    assert result.status == "finished", result.error
    return result


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run that draws no map."""
    return benchmark(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("method", METHODS)
def test_a_run_keeps_its_map_in_the_result(method: Method, plain: Result, tmp_path: Path) -> None:
    result = benchmark(tmp_path, projection=method, projection_rows=60)
    details = read_result(tmp_path / result.id / "result.json").details["attribute-inference"]
    kept = details["projection"]
    assert kept == result.details["attribute-inference"]["projection"]
    assert (kept["method"], kept["rows"], len(kept["points"])) == (method, 60, 60)
    assert np.array(kept["points"]).std(axis=0).min() > 0
    assert set(kept["attributes"]) == set(details["attributes"])
    for legend in (*kept["attributes"].values(), kept["labels"]):
        assert len(legend["labels"]) == 60
        assert set(legend["labels"]) <= set(range(-1, len(legend["classes"])))
    about = {"pca": "explained_variance", "tsne": "perplexity"}[method]
    keys = {"method", "view", "rows", "points", about, "attributes", "labels"}
    assert set(kept) == keys, "nothing that names a row"
    assert plain.id != result.id
    assert plain.leakage == result.leakage
