from __future__ import annotations

import sys
from pathlib import Path

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError, MissingExtraError
from uedp_bench.tasks.sources import hub


@pytest.fixture(autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    datasets.disable_progress_bars()


def load(path: Path | str, **params: object):
    return sources.create("hub", {"path": str(path), **params}).load()


def rows(prefix: str, count: int) -> dict[str, list[object]]:
    return {
        "text": [f"{prefix} {i}" for i in range(count)],
        "user": [f"{prefix}{i // 2}" for i in range(count)],
        "label": [i % 2 for i in range(count)],
    }


def test_a_saved_data_set_keeps_its_splits_and_class_names(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, DatasetDict

    data = DatasetDict(
        {
            "train": Dataset.from_dict(rows("a", 12)),
            "validation": Dataset.from_dict(rows("b", 4)),
            "unsupervised": Dataset.from_dict(rows("c", 4)),
        }
    ).cast_column("label", ClassLabel(names=["neg", "pos"]))
    data.save_to_disk(tmp_path / "saved")
    corpus = load(tmp_path / "saved", user_column="user", label_column="label", test=0.5)
    assert corpus.label_names == ("neg", "pos")
    assert corpus.labels is not None
    assert corpus.labels[:4].tolist() == [0, 1, 0, 1]
    assert corpus.only("valid").texts == ("b 0", "b 1", "b 2", "b 3")
    assert not any(text.startswith("c") for text in corpus.texts)
    # The test split was missing: about half of the six training users, two rows each.
    sizes = corpus.where("train").sum(), corpus.where("test").sum()
    assert sum(sizes) == 12
    assert min(sizes) >= 2
    assert not {*sizes} - {2, 4, 6, 8, 10}


def test_one_saved_split_is_cut_by_users(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_dict(rows("a", 20)).save_to_disk(tmp_path / "saved")
    corpus = load(tmp_path / "saved", user_column="user", valid=0.2, test=0.2)
    sizes = [corpus.where(split).sum() for split in ("train", "valid", "test")]
    assert (sum(sizes), min(sizes) >= 2) == (20, True)
    assert not {size % 2 for size in sizes} - {0}  # whole users


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    from datasets import Dataset

    folder = tmp_path / "files"
    folder.mkdir()
    Dataset.from_dict(rows("a", 8)).to_parquet(folder / "train.parquet")
    Dataset.from_dict(rows("b", 4)).to_parquet(folder / "test.parquet")
    corpus = load(folder, user_column="user", valid=0)
    assert corpus.only("train").texts[0] == "a 0"
    assert corpus.only("test").texts == ("b 0", "b 1", "b 2", "b 3")
    with pytest.raises(InputError, match=r"column 'txt'.*'text'"):
        load(folder, text_column="txt")


def test_a_folder_of_jsonl_files_with_its_own_split_column(tmp_path: Path) -> None:
    lines = [f'{{"text": "t {i}", "part": "{"test" if i else "train"}"}}' for i in range(3)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    corpus = load(tmp_path, split_column="part", valid=0)
    assert corpus.only("train").texts == ("t 0",)
    assert corpus.only("test").texts == ("t 1", "t 2")


def test_nulls_are_refused(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_dict({"text": ["a", None]}).save_to_disk(tmp_path / "saved")
    with pytest.raises(InputError, match=r"column 'text'.*null.*row 2"):
        load(tmp_path / "saved")


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"hub\.path: .*empty'") as caught:
        load(tmp_path / "empty")
    assert "\n" not in str(caught.value)


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"'uedp-bench\[hub\]'"):
        load("owner/name")


def test_tags_of_tokens_are_called_by_their_declared_names(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, Features, Sequence, Value

    tags = Sequence(ClassLabel(names=["O", "B-PER", "I-PER"]))
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": tags})
    table = {"tokens": [["Ann", "Lee", "left"], ["rain"]], "ner_tags": [[1, 2, 0], [0]]}
    Dataset.from_dict(table, features=features).save_to_disk(tmp_path / "saved")
    options = {"tokens_column": "tokens", "layer_columns": ["ner_tags"], "valid": 0, "test": 0}
    corpus = load(tmp_path / "saved", **options)
    assert corpus.texts == ("Ann Lee left", "rain")
    assert corpus.layer("ner_tags").types == ("PER",)
    assert corpus.layer("ner_tags").spans.mentions() == [(0, 0, 7, 0)]
    assert corpus.layer("ner_tags").rows.all()


def test_columns_of_class_numbers_declare_their_names_and_others_do_not(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset

    table = {**rows("a", 12), "age": [i % 3 for i in range(12)], "place": ["x", "y"] * 6}
    data = Dataset.from_dict(table).cast_column("age", ClassLabel(names=["young", "old", "other"]))
    data.save_to_disk(str(tmp_path))
    columns = {"label_column": "label", "attribute_columns": ["age", "place"]}
    source = sources.create("hub", {"path": str(tmp_path), **columns})
    assert source.undeclared() == {"entities", "labels", "attribute place"}


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_large_data_set_stays_in_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    from datasets import ClassLabel, Dataset, DatasetDict, load_from_disk

    whole = {"train": Dataset.from_dict(rows("a", 60)), "test": Dataset.from_dict(rows("b", 8))}
    data = DatasetDict(whole).cast_column("label", ClassLabel(names=["neg", "pos"]))
    data.save_to_disk(tmp_path / "saved")
    monkeypatch.setattr(
        hub.Hub,
        "_open",
        lambda _: (
            load_from_disk(str(tmp_path / "saved")).shuffle(seed=1)
            if shuffled
            else load_from_disk(str(tmp_path / "saved"))
        ),
    )
    options = {"user_column": "user", "label_column": "label"}
    held = load(tmp_path / "saved", **options)
    monkeypatch.setattr(hub, "MOST_ROWS_HELD", 0)
    arrow_corpus = load(tmp_path / "saved", **options)
    assert not held.stored
    assert arrow_corpus.stored
    assert arrow_corpus.texts == held.texts
    assert arrow_corpus.fingerprint == held.fingerprint
    assert arrow_corpus.label_names == ("neg", "pos")
