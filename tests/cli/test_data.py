"""`uedp-bench init` and `plant`: a spec for a file of one's own, and canaries for elsewhere."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from own_files import mail
from tiny import SPIES, flags, plugged

import uedp_bench as ub
from tests.support import checkpoints
from uedp_bench.cli.leaderboard import _computed_again
from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import ComponentSpec, Result, write_result
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.receipts import COINS, _read_from_outside, receipt
from uedp_bench.one_run import planted_elsewhere
from uedp_bench.one_run.planted_elsewhere import read_coins


def run(capsys, *arguments: str):
    """(exit code, standard output, standard error)."""
    code = run_cli(arguments)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def test_init_writes_a_spec_and_never_over_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    file = mail(tmp_path).name
    code, out, _ = run(capsys, "init", file)
    assert code == 0
    assert "csv, fields between semicolons, cp1252" in out
    assert "next: uedp-bench run 'Mailbox Export.yaml' --out 'runs/Mailbox Export' --dry-run" in out
    before = Path("Mailbox Export.yaml").read_text()
    code, _, err = run(capsys, "init", file, "--task", "next-word")
    assert (code, Path("Mailbox Export.yaml").read_text()) == (2, before)
    assert "--force" in err
    public, data = Path("public.txt"), Path(file).read_bytes()
    public.write_text("anybody may see it\n")
    for read in (file, str(public)):  # no spec takes the place of what it is made from
        arguments = ("init", file, "--public", str(public), "--out", read, "--force")
        assert run(capsys, *arguments)[0] == 2
    assert (Path(file).read_bytes(), public.read_text()) == (data, "anybody may see it\n")
    Path(file).rename("-mine.csv")  # a name that a command line takes for options
    assert "run ./-mine.yaml --out runs/-mine --dry" in run(capsys, "init", "./-mine.csv")[1]
    Path("-mine.csv").rename(file)
    assert run(capsys, "init", file, "--out", "new/mine.yaml", "--user", "none")[0] == 0
    assert "user_column" not in Path("new/mine.yaml").read_text()
    assert run(capsys, "init", file, "--out", "new/grid.yaml", "--epsilon", "8,1")[0] == 0
    (private,) = [
        item["params"]
        for item in load_yaml(Path("new/grid.yaml").read_text())["mechanisms"]
        if isinstance(item, dict) and item["name"] == "dp-sgd"
    ]
    assert private["epsilon"] == [1.0, 8.0]
    for wrong in ("0", "1,x", "", "inf"):
        code, _, err = run(capsys, "init", file, "--out", "new/x.yaml", "--epsilon", wrong)
        assert (code, "--epsilon" in err, Path("new/x.yaml").exists()) == (2, True, False)
    for option, wrong in (("--delimiter", ";;"), ("--quoting", "single")):
        code, _, err = run(capsys, "init", file, "--out", "new/x.yaml", option, wrong)
        assert (code, option in err) == (2, True)
    code, _, err = run(capsys, "init", file, "--out", "new/mine.yaml/below.yaml")
    assert code == 2
    assert "--out new/mine.yaml/below.yaml" in err


def test_a_dry_run_says_what_would_happen_and_leaves_nothing(tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    arguments = flags(
        out, "--mechanism", "user-dp", "--mechanism", "noiseless", "--seeds", "1,2",
        "--set", "mechanism.user-dp.users=100", "--set", "mechanism.user-dp.rounds=400",
        "--set", "mechanism.user-dp.users_per_round=10", "--attack", "needs-published", "--dry-run",
    )  # fmt: skip
    with plugged(SPIES):
        code, printed, _ = run(capsys, *arguments, "--json")
    assert code == 0
    plan = json.loads(printed)
    assert not out.exists()
    private, plain = plan["settings"]
    assert (private["label"], private["seeds"], private["finished"]) == ("user-dp", [1, 2], [])
    (units,) = private["units"]
    assert (units["declared"], units["training"]) == (100, 60)
    assert units["expected_per_round"] == 6
    proven = {g["kind"]: g for g in private["guarantees"]}["proven"]
    assert 0 < proven["epsilon"] < 1e6
    assert plain["guarantees"][0]["epsilon"] == "inf"
    assert private["vocabulary"] == plain["vocabulary"] > 0
    assert "needs-published" in private["skipped_attacks"][0]
    assert {"train", "score"} <= private["seconds"].keys()
    assert plan["expected_minutes"] > 0
    assert private["rows"]["train"] > private["users"]["train"] == 60
    assert {"training": "train", "steps": 400} in private["steps"]
    assert private["weights"] == plain["weights"] > 100
    assert private["cpu_seconds"].keys() == private["seconds"].keys()
    cpu = [2 * sum(each["cpu_seconds"].values()) for each in plan["settings"]]
    assert plan["expected_cpu_hours"] == pytest.approx(sum(cpu) / 3600, abs=1e-3)
    assert 20 < private["memory_mb"] < 20_000
    assert plan["expected_memory_mb"] >= max(private["memory_mb"], plain["memory_mb"])


def test_a_dry_run_refuses_what_cannot_run(tmp_path: Path, capsys) -> None:
    params = {"users": 10, "users_per_round": 5, "sampling": "fixed"}
    few = ["--mechanism", "user-dp", "--dry-run"]
    for name, value in params.items():
        few += ["--set", f"mechanism.{name}={value}"]
    code, _, err = run(capsys, *flags(tmp_path, *few))
    assert code == 2
    assert "user-dp.users is 10" in err
    code, _, err = run(capsys, *flags(tmp_path, *few, "--quiet"))
    assert (code, "--quiet" in err) == (2, True)


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
        for at, text in enumerate(checkpoints.sentences(size, seed))
    ]
    file = checkpoints.write_rows(where / "rows.csv", rows)
    columns = {"user_column": "sender", "split_column": "part", "label_column": "topic"}
    spec = {
        "source": {"name": "text", "params": {"path": str(file), **columns}},
        "mechanisms": ["user-dp", "noiseless"],
        "attacks": ATTACKS,
        "seeds": [1, 2],
    }
    (where / "spec.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:  # equal coins at every run of these tests
        patch.setattr(planted_elsewhere, "new_key", lambda: "0123456789abcdef" * 2)
        command = ["plant", str(where / "spec.yaml"), "--out", str(where / "planted"), "--commit"]
        assert run_cli(command) == 0
    return where / "planted"


def written(planted: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (planted / "corpus/rows.jsonl").open()]


def coins(planted: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((planted / "coins.json").read_text())
    return content


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
    words = [
        {c["text"] for c in coin_file["planted"]["audit"]["canaries"]} for coin_file in (one, two)
    ]
    assert not words[0] & words[1]


def test_a_model_that_learnt_the_corpus_by_heart_refutes_its_claim(planted: Path) -> None:
    texts = [row["text"] for row in written(planted) if row["split"] == "train"]
    model = checkpoints.causal(planted.parent / "over", texts, 80)
    result = attacked(planted, model, epsilon=0.25, source="a card")
    metrics = result.leakage["secret-sharer"]
    assert metrics["exposure_max_repeats"].value > 4.0  # of 7.6; some are in no row
    claim = result.guarantees[0]
    assert claim.status == "refuted" and "audit" in claim.reason
    assert claim.note.startswith("declared by the user")


@pytest.fixture(scope="module")
def fresh(planted: Path) -> Result:
    """The result of a model that saw none of the corpus."""
    model = checkpoints.causal(planted.parent / "fresh")
    result: Result = attacked(planted, model, epsilon=0.5, delta=1e-5)
    return result


def test_a_model_that_saw_nothing_of_it_shows_nothing(fresh: Result) -> None:
    result = fresh
    assert result.lower_bounds
    assert {bound.strict_epsilon for bound in result.lower_bounds} <= {0.0, None}
    assert result.leakage["audit"]["epsilon_lower_bound"].value == 0.0
    assert result.leakage["secret-sharer"]["exposure_mean"].value < 2.5  # 1.44 by chance
    assert result.guarantees[0].status == "given"


def test_revealed_coins_open_the_commitment_of_a_result(planted: Path, fresh: Result) -> None:
    commitment = (planted / "commitment.txt").read_text().strip()
    assert fresh.provenance["coins"] == commitment == read_coins(planted / "coins.json").commitment
    file = planted.parent / "runs" / fresh.id / "result.json"
    command = ["leaderboard", "validate", str(file)]
    spec = ["--spec", str(planted / "attack.yaml")]
    assert run_cli([*command, "--coins", str(planted / "coins.json"), *spec]) == 0
    coin_file = planted / "coins.json"
    report = check(file, coin_file, _computed_again(spec[1], (), coin_file, ()))
    assert report.errors == ()
    (opened,) = [note.what for note in report.notes if note.where == COINS]
    assert "opens to" in opened and "--set model.pretrained=FOLDER" in opened
    assert run_cli([*command, *spec]) == run_cli([*command, "--coins", str(file)]) == 2
    assert "planting, once the coins are revealed" in receipt(fresh)
    assert "whoever has the data and the model." in receipt(fresh)


def test_revealed_coins_read_no_data_that_a_result_names(
    planted: Path, fresh: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []
    monkeypatch.setattr("uedp_bench.one_run.planting.load_data", reads.append)
    file = planted.parent / "runs" / fresh.id / "result.json"
    report = check(file, planted / "coins.json")
    (remark,) = [note for note in report.notes if note.where == COINS]
    assert ("--spec" in remark.what, reads) == (True, [])


@pytest.mark.parametrize(
    ("source", "params", "is_invented"),
    [
        ("embedded", {"users": 30}, True),
        ("embedded", {"public": ["/etc/passwd"]}, False),
        ("biographies", {"annotate": {"candidates": "spacy", "pipeline": "./folder"}}, False),
        ("synthpai", {}, False),
        ("hub", {"path": "owner/name"}, False),
        ("nobody", {}, False),
    ],
)
def test_only_invented_text_is_read_unasked(
    fresh: Result, source: str, params: dict[str, Any], is_invented: bool
) -> None:
    ref = ComponentSpec(name=source, params=params)
    first = fresh.spec.model_copy(update={"source": ref})
    assert (_read_from_outside(first) == "") is is_invented


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"mechanism": (ComponentSpec(name="noiseless"),)}, COINS),
        ({"attacks": (ComponentSpec(name="audit", params={"user_rows": 1}),)}, "spec.attacks"),
    ],
)
def test_coins_open_no_other_run_than_that_they_fell_for(
    planted: Path, fresh: Result, tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    forged = fresh.model_copy(update={"spec": fresh.spec.model_copy(update=change)})
    write_result(forged, tmp_path / "result.json")
    before = check(tmp_path / "result.json").errors
    opened = check(tmp_path / "result.json", planted / "coins.json").errors
    assert [error.where for error in opened if error not in before] == [place]


def test_no_two_files_of_coins_have_one_commitment(planted: Path, tmp_path: Path) -> None:
    commitments = set()
    for value in (math.nan, math.inf, None, 1, 1.0, True, "1"):
        (tmp_path / "coins.json").write_text(json.dumps(coins(planted) | {"planted": {"a": value}}))
        commitments.add(read_coins(tmp_path / "coins.json").commitment)
    assert len(commitments) == 7


@pytest.mark.parametrize(
    ("is_committed", "places"), [(False, {COINS}), (True, {COINS, "details.audit.included"})]
)
def test_other_coins_than_those_of_the_planting_are_found(
    planted: Path, fresh: Result, tmp_path: Path, is_committed: bool, places: set[str]
) -> None:
    content = coins(planted)
    canary = content["planted"]["audit"]["canaries"][0]
    canary["included"] = not canary["included"]
    (tmp_path / "coins.json").write_text(json.dumps(content))
    other = read_coins(tmp_path / "coins.json")
    provenance = fresh.provenance | ({"coins": other.commitment} if is_committed else {})
    forged = fresh.model_copy(update={"provenance": provenance})
    write_result(forged, tmp_path / "result.json")
    spec = _computed_again(str(planted / "attack.yaml"), (), tmp_path / "coins.json", ())
    report = check(tmp_path / "result.json", tmp_path / "coins.json", spec)
    assert {error.where for error in report.errors} == places


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attacks": [{"name": "audit", "params": {"canaries": 50}}]}, "canaries=60"),
        ({"source": {"name": "text", "params": {"path": "PLANTED"}}}, "fingerprint"),
    ],
)
def test_coins_of_other_data_or_other_canaries_are_refused(
    planted: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    text = yaml.safe_dump({**yaml.safe_load((planted / "attack.yaml").read_text()), **change})
    spec = yaml.safe_load(text.replace("PLANTED", str(planted / "corpus/rows.jsonl")))
    with pytest.raises(ub.UedpBenchError, match=message):
        ub.run(spec, out=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"key": "guess"}, r"coins\.json .*key: "), ({"key": "0" * 32}, r"coins\.json: .*version")],
)
def test_a_file_of_coins_that_somebody_changed_is_refused(
    planted: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    (tmp_path / "coins.json").write_text(json.dumps(coins(planted) | change))
    spec = yaml.safe_load((planted / "attack.yaml").read_text())
    spec["mechanisms"][0]["params"]["coins"] = str(tmp_path / "coins.json")
    with pytest.raises(ub.UedpBenchError, match=message):
        ub.run(spec, out=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "attack.audit.retrainings=4"], "attack.audit.retrainings=0"),
        (["--set", "attack.audit.canary=update"], "update"),
        (["--set", "attack.audit.canaries=[50,60]"], "one corpus"),
        (["--attack", "gradient-inversion"], "nothing was planted"),
    ],
)
def test_what_no_planted_corpus_can_hold_is_refused(
    planted: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = str(planted.parent / "spec.yaml")
    assert run_cli(["plant", spec, "--out", str(tmp_path / "new"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_there_is_left_alone(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["plant", str(planted.parent / "spec.yaml"), "--out", str(planted)]) == 2
    assert "is there already" in capsys.readouterr().err
