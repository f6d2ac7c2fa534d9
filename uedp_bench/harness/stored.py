"""The private data that the folder of a result holds: kept, readable and told in one place."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.attack import Planted
from uedp_bench.corpus import Corpus
from uedp_bench.files.output_folder import make_private, make_readable, private_folder, write_json
from uedp_bench.harness.saved_release import save_release
from uedp_bench.model import Vocabulary
from uedp_bench.release import Release


def proves_something(guarantees: Iterable[Guarantee]) -> bool:
    """True if a guarantee is proven and finite: only then may others read the release."""
    return any(
        one.kind == "proven" and one.status == "given" and math.isfinite(one.epsilon)
        for one in guarantees
    )


@dataclass(frozen=True)
class Keeper:
    """Keeps the files of a run beside its result.

    Attributes:
        folder: of the run.
        keeps_release: True if the release, and what was planted, are kept at all.
        seeded: whoever knows the seed can draw the noise of the run again.
    """

    folder: Path
    keeps_release: bool = True
    seeded: bool = True

    def save(self, release: Release, planted: Mapping[str, Planted]) -> None:
        """Writes what attacks can be run again on, for the owner alone."""
        where = self.folder / "release"
        shutil.rmtree(where, ignore_errors=True)
        (self.folder / "planted.json").unlink(missing_ok=True)
        if not self.keeps_release:
            return
        private_folder(where)
        save_release(release, where)
        make_private(where)
        values = {name: value.model_dump(mode="json") for name, value in planted.items()}
        write_json(self.folder / "planted.json", values, private=True)

    def stored(
        self,
        release: Release,
        vocabulary: Vocabulary | None,
        guarantees: Sequence[Guarantee],
        details: Mapping[str, Any],
        corpus: Corpus,
        references: int,
    ) -> dict[str, str]:
        """What the folder holds, by kind; opens a release that is proven to protect to others.

        Args:
            release: of the run.
            vocabulary: of the release.
            guarantees: of the run.
            details: of the attacks.
            corpus: that was attacked.
            references: models that attacks asked for.
        """
        out: dict[str, str] = {}
        where = self.folder / "release"
        proven = proves_something(guarantees)
        if proven and where.is_dir() and not release.draws_noise:
            make_readable(where)
        if where.is_dir() and any(where.iterdir()):
            if not release.events:
                out["release"] = f"{release.view}, from public data alone"
            elif proven:
                out["release"] = f"{release.view}, as protected as the guarantees prove"
                if release.draws_noise:
                    out["noise"] = (
                        "key of the noise that the release draws when it is asked, which takes it "
                        "off; only the owner can read it"
                    )
                if self.seeded:
                    out["seed"] = "draws the noise of the release again, which takes it off"
            else:
                out["release"] = (
                    f"{release.view} made from private rows; nothing is proven about it, and only "
                    "the owner of the files can read it"
                )
            if vocabulary is not None and vocabulary.private:
                out["vocabulary"] = f"{vocabulary.size} words and tokens of private text"
        if (self.folder / "planted.json").is_file():
            out["planted"] = "canaries, and which users trained; only the owner can read them"
        if references:
            out["cache"] = (
                f"cache/ beside the folder: {references} models that attacks asked for, trained on "
                "private rows; only the owner can read them"
            )
        if any(details.values()):
            out["details"] = f"what {', '.join(details)} measured of single rows, users or canaries"
        for name, classes in _classes(corpus):
            if shown := set(_texts(details)) & set(classes):
                out[f"classes of {name}"] = f"{len(shown)} names in the details"
        return out


def _classes(corpus: Corpus) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from corpus.attribute_names.items()
    if corpus.label_names:
        yield "labels", corpus.label_names


def _texts(value: Any) -> Iterator[str]:
    """All texts and keys in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
