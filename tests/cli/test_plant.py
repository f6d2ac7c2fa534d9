"""`uedp-bench plant`: canaries, a training by plain `transformers` code, and what attacks find."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

import uedp_bench as ub
from tests.support import checkpoints as made
from uedp_bench.cli.main import run_cli
from uedp_bench.one_run import planted_folder

ATTACKS = [
    {"name": "audit", "params": {"canaries": 60, "word_pool": 44, "references": 20}},
    {
        "name": "secret-sharer",
        "params": {
            "p_u": [0.05], "p_e": [1.0], "canaries": 12, "entity_canaries": 0, "word_pool": 44,
            "references": 200, "exact_up_to": 1,
        },
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the command wrote, beside the spec and the rows that it read."""
    where = tmp_path_factory.mktemp("plant")
    splits = [("train", 120), ("test", 12), ("valid", 12)]
    rows = [
        {"text": text, "sender": f"{split}{at}", "part": split, "topic": "ab"[at % 2]}
        for seed, (split, size) in enumerate(splits)
        for at, text in enumerate(made.sentences(size, seed))
    ]
    file = made.write_rows(where / "rows.csv", rows)
    columns = {"user_column": "sender", "split_column": "part", "label_column": "topic"}
    spec = {
        "source": {"name": "text", "params": {"path": str(file), **columns}},
        "mechanisms": ["user-dp", "noiseless"],
        "attacks": ATTACKS,
        "seeds": [1, 2],
    }
    (where / "spec.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:  # equal coins at every run of these tests
        patch.setattr(planted_folder, "new_key", lambda: "0123456789abcdef" * 2)
        assert run_cli(["plant", str(where / "spec.yaml"), "--out", str(where / "planted")]) == 0
    return where / "planted"


def written(planted: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (planted / "corpus/rows.jsonl").open()]


def coins(planted: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((planted / "coins.json").read_text())
    return found


def attacked(planted: Path, model: Path, **claim: Any) -> Any:
    """The result of the spec that the command wrote, for a model."""
    settings = {"model.pretrained": str(model)}
    settings |= {f"mechanism.claimed_{name}": value for name, value in claim.items()}
    (result,) = ub.run(
        str(planted / "attack.yaml"), settings=settings, out=planted.parent / "runs", workers=0
    )
    assert result.error is None, result.error
    return result


def test_the_corpus_holds_canaries_that_are_in_and_no_word_of_those_that_are_out(
    planted: Path,
) -> None:
    canaries = coins(planted)["planted"]["audit"]["canaries"]
    texts = [row["text"] for row in written(planted) if row["split"] == "train"]
    assert {c["included"] for c in canaries} == {True, False}
    assert all((c["text"] in texts) == c["included"] for c in canaries)
    every = "".join(path.read_text() for path in (planted / "corpus").iterdir())
    assert "held_out" not in every and "planted" not in every and "origin" not in every
    assert coins(planted)["key"] not in every
    secret = (planted / "coins.json").stat().st_mode
    assert stat.S_IMODE(secret) == 0o600


def test_the_source_reads_the_corpus_again(planted: Path) -> None:
    columns = {"user_column": "user", "split_column": "split", "label_column": "label"}
    corpus = ub.load_corpus("text", path=planted / "corpus/rows.jsonl", **columns)
    rows = written(planted)
    assert list(corpus.texts) == [row["text"] for row in rows]
    assert [corpus.label_names[i] for i in corpus.labels] == [row["label"] for row in rows]
    assert int(corpus.where("train").sum()) == sum(row["split"] == "train" for row in rows)


def test_coins_fall_anew_and_by_no_seed(planted: Path, tmp_path: Path) -> None:
    spec = str(planted.parent / "spec.yaml")
    assert run_cli(["plant", spec, "--out", str(tmp_path / "again")]) == 0
    one, two = coins(planted), coins(tmp_path / "again")
    assert one["data"] == two["data"] and one["key"] != two["key"]
    words = [{c["text"] for c in found["planted"]["audit"]["canaries"]} for found in (one, two)]
    assert not words[0] & words[1]


def test_a_model_that_learnt_the_corpus_by_heart_refutes_its_claim(planted: Path) -> None:
    texts = [row["text"] for row in written(planted) if row["split"] == "train"]
    model = made.causal(planted.parent / "over", texts, 80)
    result = attacked(planted, model, epsilon=0.25, source="a card")
    found = result.leakage["secret-sharer"]
    assert found["exposure_max_repeats"].value > 4.0  # of 7.6; some are in no row
    claim = result.guarantees[0]
    assert claim.status == "refuted" and "audit" in claim.reason
    assert claim.note.startswith("declared by the user")


def test_a_model_that_saw_nothing_of_it_shows_nothing(planted: Path) -> None:
    result = attacked(planted, made.causal(planted.parent / "fresh"), epsilon=0.5, delta=1e-5)
    assert result.lower_bounds
    assert {bound.strict_epsilon for bound in result.lower_bounds} <= {0.0, None}
    assert result.leakage["audit"]["epsilon_lower_bound"].value == 0.0
    assert result.leakage["secret-sharer"]["exposure_mean"].value < 2.5  # 1.44 by chance
    assert result.guarantees[0].status == "given"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attacks": [{"name": "audit", "params": {"canaries": 50}}]}, "canaries=60"),
        ({"source": {"name": "text", "params": {"path": "PLANTED"}}}, "fingerprint"),
    ],
)
def test_coins_of_other_data_or_other_canaries_are_refused(
    planted: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    text = yaml.safe_dump({**yaml.safe_load((planted / "attack.yaml").read_text()), **change})
    spec = yaml.safe_load(text.replace("PLANTED", str(planted / "corpus/rows.jsonl")))
    with pytest.raises(ub.UedpBenchError, match=said):
        ub.run(spec, out=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"key": "guess"}, r"coins\.json .*key: "), ({"key": "0" * 32}, r"coins\.json: .*version")],
)
def test_a_file_of_coins_that_somebody_changed_is_refused(
    planted: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    (tmp_path / "coins.json").write_text(json.dumps(coins(planted) | change))
    spec = yaml.safe_load((planted / "attack.yaml").read_text())
    spec["mechanisms"][0]["params"]["coins"] = str(tmp_path / "coins.json")
    with pytest.raises(ub.UedpBenchError, match=said):
        ub.run(spec, out=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "attack.audit.retrainings=4"], "attack.audit.retrainings=0"),
        (["--set", "attack.audit.canary=update"], "update"),
        (["--set", "attack.audit.canaries=[50,60]"], "one corpus"),
        (["--attack", "gradient-inversion"], "nothing was planted"),
    ],
)
def test_what_no_planted_corpus_can_hold_is_refused(
    planted: Path, tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = str(planted.parent / "spec.yaml")
    assert run_cli(["plant", spec, "--out", str(tmp_path / "new"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_there_is_left_alone(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["plant", str(planted.parent / "spec.yaml"), "--out", str(planted)]) == 2
    assert "is there already" in capsys.readouterr().err
