"""The corpus of a model that was trained before the run, and the coins that planted in it.

Nothing may be planted in it any more. Coins fell by a secret key of the operating system, never by
the seed of a spec: whoever trains may know the source, the spec and the planted corpus, and learns
nothing of the canaries that are out. `uedp-bench plant` writes that corpus, the coins, and the spec
that attacks the trained model.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uedp_bench.components import registry
from uedp_bench.contracts.leakage import Attack, Planted
from uedp_bench.contracts.results import UNPROTECTED, ComponentSpec, RunSpec
from uedp_bench.corpus import SPLITS, Corpus, Layer
from uedp_bench.errors import InputError
from uedp_bench.io.files import shown_path
from uedp_bench.io.folders import private_folder, write_atomically, write_json
from uedp_bench.one_run.components import MODEL, build_sources
from uedp_bench.one_run.planting import (
    Data,
    PlantedCorpus,
    before_training,
    load_data,
    plant_all,
    public_sizes,
    withdrawn,
)
from uedp_bench.randomness import shared_stream
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import Ref, Spec
from uedp_bench.version import __version__

if TYPE_CHECKING:
    from uedp_bench.one_run.components import Components, Sources

_KEY_BITS = 128

_COMMITMENT = "uedp-bench coins\n"
"""Begins what is hashed, so that no other hash of this package is taken for a commitment."""


class Coins(BaseModel):
    """The file `coins.json`: keep it from whoever trains.

    Attributes:
        format: format of this file.
        version: version of this package, which threw the coins.
        key: 32 hexadecimal digits from the operating system, which every draw came from.
        attacks: attacks that planted, with all parameters.
        data: fingerprint of the corpus before anything was planted.
        corpus: fingerprint of the corpus that is trained on: everything planted, what coins left
            out in the split held_out.
        planted: planted secrets of each attack, by its name: canaries and their coins.
    """

    # As null, two files of coins would have one commitment.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    format: Literal[1] = 1
    version: str = __version__
    key: str = Field(pattern=f"^[0-9a-f]{{{_KEY_BITS // 4}}}$")
    attacks: tuple[ComponentSpec, ...]
    data: str
    corpus: str
    planted: Mapping[str, Any]

    @property
    def number(self) -> int:
        """The key as seed of all planting."""
        return int(self.key, 16)

    @property
    def commitment(self) -> str:
        """Hash to publish before training: it binds to the coins, and its key keeps them hidden."""
        fields = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return f"sha256:{sha256(f'{_COMMITMENT}{fields}'.encode()).hexdigest()}"

    def check_planted(self, corpus: Corpus, planted: Mapping[str, Any], where: Path) -> None:
        """Refuse another corpus than that on which the coins fell.

        Raises:
            InputError: if planting again gives something else.
        """
        again = {name: value.model_dump(mode="json") for name, value in planted.items()}
        if corpus.fingerprint != self.corpus or again != dict(self.planted):
            raise InputError(
                f"{where}: planting again gives other coins. Either somebody changed the file, or "
                f"version {self.version} of this package, which threw them, plants otherwise: use "
                "that version"
            )


def new_key() -> str:
    """A key that nobody can guess."""
    return f"{secrets.randbits(_KEY_BITS):0{_KEY_BITS // 4}x}"


def write_coins(coins: Coins, path: Path) -> None:
    """Write the file, for its owner alone."""
    write_json(path, coins.model_dump(mode="json"), private=True)


def read_coins(path: Path) -> Coins:
    """Read the coins of a file.

    Raises:
        InputError: if there is none, or it is not what `write_coins` wrote.
    """
    if path.is_dir():
        raise InputError(f"coins: {path} is a folder; give the file in it: {path / 'coins.json'}")
    if not path.is_file():
        raise InputError(
            f"coins: there is no file {path}; `uedp-bench plant` writes it before the model is "
            "trained"
        )
    try:
        return Coins.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"coins: {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        description = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        raise InputError(f"{path} holds no coins of `uedp-bench plant`: {description}") from None


def check_attacks(coins: Coins, attacks: Sequence[Attack[Any]], where: Path) -> None:
    """Refuse an attack with other parameters than those by which it planted.

    Raises:
        InputError: naming the first parameter that differs, and the value that it planted with.
    """
    planted_params = {ref.name: ref.params for ref in coins.attacks}
    for attack in attacks:
        if attack.name not in planted_params:
            continue
        params = attack.params.model_dump(mode="json")
        before = type(attack).create(planted_params[attack.name]).params.model_dump(mode="json")
        differs = [name for name in params if params[name] != before.get(name)]
        if differs:
            name = differs[0]
            raise InputError(
                f"{attack.name}.{name} is {params[name]!r}, and the canaries of {where} were "
                f"planted with {before.get(name)!r}: "
                f"--set attack.{attack.name}.{name}={before.get(name)}"
            )


def planted_before(
    parts: Components, data: Data, spec: RunSpec, coins: Path | None
) -> PlantedCorpus:
    """The corpus that somebody trained on before the run, with what `coins` planted in it.

    Raises:
        InputError: for whatever can be known to be wrong before training.
    """
    if spec.clients is not None:
        raise InputError("clients train here, and the model was trained elsewhere: leave them out")
    if coins is None:
        return _by_splits(parts.attacks, parts.sources, data, spec.seed)
    return _by_coins(parts.attacks, parts.sources, data, coins)


def planted_in(attack: Attack[Any], corpus: Corpus, seed: int) -> Planted | None:
    """Secrets that an attack needs no planting for, in a corpus that was trained on before.

    Args:
        attack: attack of a run.
        corpus: corpus whose splits say who trained.
        seed: seed of the draws of the attack.

    Returns:
        None if the attack would have to plant.

    Raises:
        InputError: if the splits do not hold what it needs.
    """
    with before_training(attack, "plant"):
        canaries = attack.planted_in(corpus)
    if canaries is not None:
        return canaries
    rng = np.random.Generator(np.random.PCG64(shared_stream(seed, "plant", attack.name)))
    try:
        with before_training(attack, "plant"):
            changed, planted = attack.plant(corpus, rng)
    except InputError:
        if type(attack).planted_type is Planted:
            raise
        return None  # it has no room for what it would plant
    same = changed is corpus or changed.fingerprint == corpus.fingerprint
    return planted if same and not planted.withdrawn and not planted.injected else None


def _by_splits(
    attacks: tuple[Attack[Any], ...], sources: Sources, data: Data, seed: int
) -> PlantedCorpus:
    if not data.corpus.where("test", "held_out").any():
        raise InputError(
            "the source has rows of the split train alone, on which the model was trained, and "
            "utility on them would be that of training text: mark rows that it was not trained on "
            "as test or held_out in the split_column"
        )
    secrets_by_attack = {one.name: planted_in(one, data.corpus, seed) for one in attacks}
    planted = {name: one for name, one in secrets_by_attack.items() if one is not None}
    unplanted = {
        name: f"{name} plants before training, and nothing was planted: run `uedp-bench plant` "
        "before the model is trained, and give trained-elsewhere.coins"
        for name, one in secrets_by_attack.items()
        if one is None
    }
    none = np.zeros(len(data.corpus), dtype=bool)
    stats = public_sizes(sources, data.corpus, data.downstream)
    return PlantedCorpus(data, data.corpus, planted, stats, none, unplanted)


def _by_coins(
    attacks: tuple[Attack[Any], ...], sources: Sources, data: Data, path: Path
) -> PlantedCorpus:
    coins = read_coins(path)
    check_attacks(coins, attacks, path)
    replanted = planted_by(coins, sources, data, path)
    planted, unplanted = {}, {}
    for attack in attacks:
        planted_by_attack = replanted.planted.get(attack.name)
        if planted_by_attack is None and not attack.holds_out:
            planted_by_attack = planted_in(attack, replanted.corpus, coins.number)
        if planted_by_attack is not None:
            planted[attack.name] = planted_by_attack
            continue
        unplanted[attack.name] = (
            f"{attack.name} plants before training, and was not among the attacks that did: "
            f"{', '.join(ref.name for ref in coins.attacks)}"
        )
    return replace(replanted, planted=planted, unplanted=unplanted, commitment=coins.commitment)


def planted_by(coins: Coins, sources: Sources, data: Data, path: Path) -> PlantedCorpus:
    """Plant the corpus on which coins fell again.

    Args:
        coins: coins of a file.
        sources: sources of the data.
        data: data as the sources made it.
        path: file of the coins, for messages.

    Raises:
        InputError: if the data are others, or planting again gives another corpus.
    """
    if data.fingerprint != coins.data:
        raise InputError(
            f"{path}: these coins fell on other data (fingerprint {coins.data}) than those of the "
            f"source ({data.fingerprint}): give the source as it was when `uedp-bench plant` read "
            "it, not the planted corpus"
        )
    before = tuple(registry.attacks.create(ref.name, ref.params) for ref in coins.attacks)
    planted_corpus = planted_with(before, sources, data, coins.number)
    coins.check_planted(planted_corpus.corpus, planted_corpus.planted, path)
    return planted_corpus


def planted_with(
    attacks: tuple[Attack[Any], ...], sources: Sources, data: Data, key: int
) -> PlantedCorpus:
    """Plant for attacks, for a training that happens elsewhere.

    Args:
        attacks: attacks that plant.
        sources: sources of the data.
        data: data as the sources made it.
        key: key of all draws.

    Raises:
        InputError: for an attack that only a training of this package can answer.
    """
    for attack in attacks:
        for field, models in attack.retrainings(()).items():
            if models:
                raise InputError(
                    f"{attack.name}.{field} is {models}, and nobody here can train the model "
                    f"again: --set attack.{attack.name}.{field}=0"
                )
    whole, planted = plant_all(attacks, data.corpus, key)
    injected = [name for name, value in planted.items() if value.injected]
    if injected:
        raise InputError(
            f"{injected[0]} replaces updates of users while they train, which a planted corpus "
            "cannot: take canaries of text (audit.canary='user')"
        )
    out = withdrawn(planted, len(whole))
    stats = public_sizes(sources, whole, data.downstream)
    return PlantedCorpus(data, whole.with_split(out, "held_out"), planted, stats, out)


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
        rows: number of rows written, by split.
        summary: lines about what the attacks planted, and their notes on it.
        commitment: hash of the coins.
    """

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
    return PlantedFolder(rows, summary, coins.commitment)


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
