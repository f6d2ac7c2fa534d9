"""The folder of `uedp-bench plant`: a corpus to train on, the coins, and the spec that attacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from uedp_bench.components import registry
from uedp_bench.contracts.results import UNPROTECTED, RunSpec
from uedp_bench.corpus import SPLITS, Corpus, Layer
from uedp_bench.errors import InputError
from uedp_bench.io.files import shown_path
from uedp_bench.io.folders import private_folder, write_atomically
from uedp_bench.one_run.components import MODEL, build_sources
from uedp_bench.one_run.planted_elsewhere import Coins, new_key, planted_with, write_coins
from uedp_bench.one_run.planting import Data, PlantedCorpus, load_data
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import Ref, Spec

ROWS, COINS, ATTACK, COMMITMENT = (
    "corpus/rows.jsonl", "coins.json", "attack.yaml", "commitment.txt",
)  # fmt: skip
"""Files of the folder: who trains needs the first alone, and must not see the second."""

NO_MODEL_YET = "MODEL"
"""Stands in the spec for the folder or hub id of the model, which is not there yet."""


@dataclass(frozen=True)
class PlantedFolder:
    """Planted corpus and its coins in a folder.

    Attributes:
        folder: folder of the files.
        rows: number of rows written, by split.
        summary: lines about what the attacks planted, and their notes on it.
        commitment: hash of the coins.
    """

    folder: Path
    rows: dict[str, int]
    summary: tuple[str, ...]
    commitment: str


def plant_folder(spec: Spec, folder: Path, *, commit: bool = False) -> PlantedFolder:
    """Plant for the attacks of a spec, and write everything into a new folder.

    Args:
        spec: spec whose source and attacks are used; mechanisms and seeds are not.
        folder: new or empty folder.
        commit: True to write the hash of the coins beside them, to be published before training.

    Raises:
        InputError: if the folder holds anything, the spec stands for several corpora, an attack
            needs a training of this package, or none of them plants anything.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {shown_path(folder)} is there already: name a new folder")
    run = one_run(spec)
    sources = build_sources(run)
    data = load_data(sources)
    attacks = tuple(registry.attacks.create(ref.name, ref.params) for ref in run.attacks)
    key = new_key()
    planted_corpus = planted_with(attacks, sources, data, int(key, 16))
    if planted_corpus.corpus.fingerprint == data.corpus.fingerprint:
        names = ", ".join(attack.name for attack in attacks) or "none"
        raise InputError(
            f"nothing was planted by the attacks of this spec ({names}): add audit or "
            "secret-sharer, which put canaries in, or membership, which holds users out"
        )
    planted = {
        name: value.model_dump(mode="json") for name, value in planted_corpus.planted.items()
    }
    coins = Coins(
        key=key,
        attacks=run.attacks,
        data=data.fingerprint,
        corpus=planted_corpus.corpus.fingerprint,
        planted=planted,
    )
    private_folder(folder)
    (folder / ROWS).parent.mkdir()
    rows = _write_rows(planted_corpus.corpus, folder / ROWS)
    write_coins(coins, folder / COINS)
    if commit:
        write_atomically(folder / COMMITMENT, f"{coins.commitment}\n")
    write_atomically(folder / ATTACK, _attack_spec(spec, run, folder))
    summary = tuple(_summary(data, planted_corpus))
    return PlantedFolder(folder, rows, summary, coins.commitment)


def one_run(spec: Spec) -> RunSpec:
    """The spec as one run without mechanisms: they do not change what is planted."""
    untrained = spec.model_copy(update={"mechanisms": [[Ref(name=UNPROTECTED)]], "seeds": [1]})
    runs = expand(untrained)
    if len({run.model_dump_json(include={"source", "attacks"}) for run in runs}) != 1:
        raise InputError(
            "plant writes one corpus, and lists of values in the spec stand for "
            f"{len(runs)}: give one value for each parameter of the source and the attacks"
        )
    return runs[0]


def _write_rows(corpus: Corpus, path: Path) -> dict[str, int]:
    """Write the rows that nobody holds out, as the source `text` reads them; counts by split.

    No id is written, and rows stand where they stood: nothing in the file names a planted row.
    """
    kept = corpus.only("train", "valid", "test", "public")
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(kept))
    write_atomically(path, "".join(lines), private=True)
    return {split: int(kept.where(split).sum()) for split in SPLITS if kept.where(split).any()}


def _rows(corpus: Corpus) -> Iterator[dict[str, Any]]:
    classes = {
        **({} if corpus.labels is None else {"label": (corpus.labels, corpus.label_names)}),
        **{n: (corpus.attributes[n], corpus.attribute_names[n]) for n in corpus.attributes},
    }
    layers = {name: _spans(layer) for name, layer in corpus.layers.items()}
    mine = Layer(corpus.entities, corpus.entity_types, corpus.where(*SPLITS))
    entities = _spans(mine) if corpus.entity_types else None
    for row, text in enumerate(corpus.texts):
        user = int(corpus.users[row])
        out: dict[str, Any] = {
            "text": text,
            "user": f"user {user}" if user >= 0 else f"row {row}",
            "split": SPLITS[int(corpus.split[row])],
        }
        for name, (numbers, names) in classes.items():
            number = int(numbers[row])
            out[name] = names[number] if number >= 0 else None
        if corpus.targets is not None:
            out["target"] = corpus.targets[row]
        if entities is not None:
            out["entities"] = entities[row]
        out |= {name: spans[row] for name, spans in layers.items()}
        yield out


def _spans(layer: Layer) -> list[list[dict[str, Any]] | None]:
    """Spans of each row; None for a row that is not annotated."""
    out: list[list[dict[str, Any]] | None] = [[] if annotated else None for annotated in layer.rows]
    for row, start, end, kind in layer.spans.mentions():
        spans = out[row]
        if spans is not None:
            spans.append({"start": start, "end": end, "type": layer.types[kind]})
    return out


def _attack_spec(spec: Spec, run: RunSpec, folder: Path) -> str:
    """The spec of the run that attacks the model, once it is there."""
    source = {name: _absolute_path(value) for name, value in spec.source.params.items()}
    fields = {
        "description": "a model that was trained elsewhere on the planted corpus",
        "task": spec.task.model_dump(),
        "source": {"name": spec.source.name, "params": source},
        "model": {"name": MODEL, "params": {"pretrained": NO_MODEL_YET}},
        "mechanisms": [
            {"name": "trained-elsewhere", "params": {"coins": str((folder / COINS).resolve())}}
        ],
        "attacks": [ref.model_dump() for ref in spec.attacks],
        "delta": run.delta,
    }
    return yaml.safe_dump(json.loads(json.dumps(fields, default=str)), sort_keys=False)


def _absolute_path(value: Any) -> Any:
    """Make the name of a file or folder that exists absolute; leave any other value as it is."""
    exists = isinstance(value, str) and Path(value).exists()
    return str(Path(value).resolve()) if exists else value


def _summary(data: Data, planted_corpus: PlantedCorpus) -> Iterator[str]:
    changed = int((planted_corpus.corpus.origin < 0).sum() - (data.corpus.origin < 0).sum())
    out = int(planted_corpus.corpus.where("held_out").sum() - data.corpus.where("held_out").sum())
    yield f"{changed:,} rows hold something planted; {out:,} rows are held out by coins and draws"
    for name, value in planted_corpus.planted.items():
        for note in getattr(value, "notes", ()):
            yield f"{name}: {note}"
