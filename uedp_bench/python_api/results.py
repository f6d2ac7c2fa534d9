"""Results and saved releases in Python: shown, computed with, asked and attacked again.

One result is plain words in a terminal, and words with tables in a notebook; several are a table
where they are shown, and a data frame where they are computed with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from uedp_bench.accounting.declarations import DeclaredClaim
from uedp_bench.components import registry
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import Result as Recorded
from uedp_bench.contracts.results import read_result
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError, plain
from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.comparisons import BETTER, warnings
from uedp_bench.leaderboard.loading import load_results as read_all
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.run_pages.summary import Short, in_short
from uedp_bench.leaderboard.table import columns_of, to_text
from uedp_bench.leaderboard.table_columns import column_prefix, quoted
from uedp_bench.one_run.components import build
from uedp_bench.one_run.planted_elsewhere import planted_in
from uedp_bench.one_run.planting import counted_sizes, forget_corpora, load_data
from uedp_bench.one_run.preparing import planted_for
from uedp_bench.one_run.private_data import load_release as load_saved

if TYPE_CHECKING:
    import pandas as pd


def sheet_html(sheet: Sheet) -> str:
    """One table of the leaderboard, with its title above and its notes below."""
    infinite = any("∞" in cell for line in sheet.cells for cell in line)
    all_notes = [*sheet.notes, *(["∞ as an ε: no protection"] if infinite else [])]
    notes = "".join(f"<li>{_shown(note)}</li>" for note in all_notes)
    return (
        f"<h4>{_shown(sheet.title)}</h4>{table_html(sheet.columns, sheet.cells)}"
        f"{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _short_html(short: Short) -> str:
    """A run: its title, its sentences and its tables."""
    sentences = "".join(
        f"<p><strong>{_shown(one.text)}</strong></p>" if one.tone == "bad"
        else f"<p>{_shown(one.text)}</p>"
        for one in short.sentences
    )  # fmt: skip
    tables = "".join(
        f"<h5>{_shown(one.caption)}</h5>{table_html(one.head, one.rows, one.kinds)}"
        for one in short.tables
    )
    return f"<h4>{_shown(short.title)}</h4>{sentences}{tables}"


def table_html(
    columns: Sequence[str], lines: Iterable[Sequence[str]], kinds: Sequence[str] | None = None
) -> str:
    """A table of text; a line break within a cell is kept.

    Args:
        columns: their heads.
        lines: cells of each line.
        kinds: kinds of the columns: those of numbers ("number") end in one line, others begin in
            one. None: all but the first are numbers.
    """
    if kinds is None:
        kinds = ["", *["number"] * (len(columns) - 1)]
    sides = ["right" if kind == "number" else "left" for kind in kinds]

    def cells(name: str, texts: Sequence[str]) -> str:
        return "".join(
            f'<{name} style="text-align:{side}{_colour(text)}">{_shown(text)}</{name}>'
            for text, side in zip(texts, sides, strict=True)
        )

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<table><thead><tr>{cells('th', columns)}</tr></thead><tbody>{body}</tbody></table>"


def _colour(text: str) -> str:
    """Red for the mark of a table that contradicts itself."""
    return ";color:#b3261e" if BETTER in text.split("\n") else ""


def _shown(text: str) -> str:
    return escape(plain(text, lines=True)).replace("\n", "<br>")


class Result(Recorded):
    """One run, with everything that was measured; `docs/results.md` has every field.

    It shows itself: what it promises, what it is worth, what attacks found, and what it cost.
    """

    @staticmethod
    def from_recorded(recorded: Recorded) -> Result:
        """Build a result that shows itself."""
        if isinstance(recorded, Result):
            return recorded
        # Every field was validated before.
        return Result.model_construct(recorded.model_fields_set, **dict(recorded))

    def __eq__(self, other: object) -> bool:
        """True for an equal result, also where it does not show itself."""
        if not isinstance(other, Recorded):
            return NotImplemented
        return dict(self) == dict(other)

    __hash__ = Recorded.__hash__

    def __repr__(self) -> str:
        """The result as `uedp-bench show` prints it."""
        return "\n".join(result_lines(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The top of the run's page: its sentences, and its tables in short."""
        (row,) = aggregate([self])
        return _short_html(in_short(self, row))


Each = Literal["run", "row"]
"""Line of a data frame: one run, or all seeds of one setting."""


class Results(Sequence[Result]):
    """Results of runs, finished and failed; the table of the leaderboard where they are shown.

    Args:
        results: results in any order.
        out: folder that holds `<id>/result.json` of each; None where it is unknown.
    """

    def __init__(self, results: Iterable[Recorded], out: Path | None = None) -> None:
        self._results = tuple(map(Result.from_recorded, results))
        self.out = out

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        """One result, or some of them."""
        if isinstance(index, slice):
            return Results(self._results[index], self.out)
        return self._results[index]

    def __len__(self) -> int:
        """Number of runs."""
        return len(self._results)

    @cached_property
    def rows(self) -> list[Row]:
        """The lines of the table: all seeds of one setting are one."""
        paths = {} if self.out is None else {r.id: self.out / r.id / "result.json" for r in self}
        return aggregate(self._results, paths)

    @property
    def failed(self) -> tuple[Result, ...]:
        """The runs that ended in an error; `Result.error` says which."""
        return tuple(result for result in self if result.error is not None)

    def folder(self, result: Result) -> Path:
        """The folder of a run, for `load_run` and `load_release`.

        Raises:
            ValueError: if nobody knows where these results are.
        """
        if self.out is None:
            raise ValueError("these results were read from several places: give the folder itself")
        return self.out / result.id

    def frame(self, each: Each = "run") -> pd.DataFrame:
        """The results as a data frame.

        Args:
            each: kind of a line. "run": one run; the intervals are those of its own test rows.
                "row": all seeds of one setting; the intervals are over seeds.

        Returns:
            Columns as `uedp-bench leaderboard --csv` has them: `params.KIND.NAME` of every
            parameter, `utility.NAME`, `ATTACK.NAME` and `cost.NAME` with `.low` and
            `.high`, and `proven.UNIT.ADJACENCY.epsilon`. Infinity is a float, and what is not
            known is missing.
        """
        import pandas as pd

        rows = self.rows
        if each == "run":
            rows = [row for result in self for row in aggregate([result])]
        upper_end = warnings(self.rows)
        cells = (columns_of(row, upper_end.get(row.group)) for row in rows)
        lines = [{name: _value(name, cell) for name, cell in line.items()} for line in cells]
        if each == "run":
            for line, result in zip(lines, self, strict=True):
                line |= {"seed": result.spec.seed, "id": result.id, "status": result.status}
                line |= _own_intervals(result)
        return pd.DataFrame(lines)

    def __repr__(self) -> str:
        """The table as text."""
        return to_text(self.rows) if len(self) else "no results"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        if not len(self):
            return "<p>no results</p>"
        return "".join(map(sheet_html, sheets(self.rows)))


def load_results(*paths: Path | str, each: Each = "run") -> pd.DataFrame:
    """All results below some folders as a data frame; each id once.

    Args:
        paths: folders of results, such as the `out` of `run`, and bundles.
        each: kind of a line; see `Results.frame`.

    Raises:
        InputError: if a folder does not exist or a file is no valid result.
    """
    return Results(read_all(map(Path, paths))).frame(each)


_TRUTHS: Mapping[str, bool | None] = {"true": True, "false": False, "unknown": None}


def _value(name: str, cell: Any) -> Any:
    """A cell of the CSV as a value: numbers are numbers, and an unknown value is None."""
    if cell == "":
        return None
    if name in ("learned", "older_code", "headline.larger_is_better"):
        return _TRUTHS[cell]
    if cell in ("inf", "-inf"):
        return math.inf if cell == "inf" else -math.inf
    return cell


def _own_intervals(result: Recorded) -> dict[str, Any]:
    """Ends of the intervals of a single run, which a table over seeds has no place for."""
    parts = [("utility", result.utility)]
    parts += [(column_prefix(attack), metrics) for attack, metrics in result.leakage.items()]
    return {
        f"{prefix}.{quoted(name)}.{end}": getattr(estimate, end)
        for prefix, estimates in parts
        for name, estimate in estimates.items()
        for end in ("low", "high")
    }


# ----------------------------------------------------------------------------------- saved releases


@dataclass(frozen=True)
class SavedRun:
    """A finished run, read from its folder.

    Attributes:
        result: result of the run.
        release: release of the run.
        corpus: its rows, with everything that its attacks planted.
        planted: planted secrets of each attack, by name.
    """

    result: Result
    release: Release
    corpus: Corpus
    planted: Mapping[str, Planted]


def load_corpus(source: str, **parameters: Any) -> Corpus:
    """Load the corpus of a source: `load_corpus("text", path="mail.csv", text_column="body")`.

    Raises:
        InputError: if the name or a parameter is wrong, or the data cannot be read.
    """
    params = {k: str(v) if isinstance(v, Path) else v for k, v in parameters.items()}
    corpus: Corpus = registry.sources.create(source, params).load()
    return corpus


def load_release(folder: Path | str, *, plugins: Iterable[Path | str] = ()) -> Release:
    """Load the release of a run, as its users have it; no data are read.

    Args:
        folder: folder of the run, `runs/<id>`.
        plugins: files that register its components.

    Raises:
        InputError: if the folder holds no finished run, or its release was not kept.
    """
    registry.load_plugins(tuple(map(Path, plugins)))
    return _release(Path(folder), _result(Path(folder)))


def load_run(folder: Path | str, *, plugins: Iterable[Path | str] = ()) -> SavedRun:
    """Load a finished run with its release, its planted corpus, and the planted secrets.

    Args:
        folder: folder of the run, `runs/<id>`; its source is read again.
        plugins: files that register its components.

    Raises:
        InputError: if the folder holds no finished run, its release was not kept, or its data
            changed since.
    """
    where = Path(folder)
    registry.load_plugins(tuple(map(Path, plugins)))
    result = _result(where)
    spec, parts = result.spec, build(result.spec)
    forget_corpora()
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    was = result.provenance.get("corpus", {}).get("fingerprint")
    if was not in (None, data.corpus.fingerprint):
        raise InputError(f"{where}: the data of {spec.source.name} changed after the run")
    return SavedRun(result, _release(where, result), planted_corpus.corpus, planted_corpus.planted)


def load_checkpoint(
    where: Path | str, corpus: Corpus, *, task: str = "next-word", **parameters: Any
) -> Release:
    """A model that `transformers` saved, as attacks ask it; nothing is trained.

    Args:
        where: folder or hub id, with its tokenizer.
        corpus: corpus whose split `train` it was trained on; of classifiers and taggers, its
            classes.
        task: task that such a model learns: "next-word", "masked-language-model",
            "text-classification" or "tagging".
        parameters: parameters of the model `checkpoint`, such as `labels`.

    Raises:
        InputError: if the folder holds another kind of model, its weights are not those of its
            configuration, or its classes are not those of the corpus.
    """
    model = registry.models.create("checkpoint", {"pretrained": str(where), **parameters})
    return _as_saved(model, corpus, task)


def _as_saved(model: Any, corpus: Corpus, task: str = "next-word") -> Release:
    kind = registry.tasks.get(task)
    if kind.models is None or not isinstance(model, kind.models):
        raise InputError(f"the task {task} learns no model that transformers saves as a folder")
    live = kind.create({}, model=model)
    visible = corpus.only("train", "valid", "public")
    (learner,) = live.stages(visible, live.vocabulary(visible), Run(1, counted_sizes(corpus)))
    release: Release = learner.release(learner.module)
    return release.showing(events=DeclaredClaim().events())


def attack(
    release: Release | Path | str,
    corpus: Corpus,
    name: str,
    *,
    planted: Planted | None = None,
    base: Release | Path | str | None = None,
    seed: int = 1,
    **parameters: Any,
) -> Leakage:
    """Attacks a release: of a run, or a model of your own behind the capabilities of a release.

    A folder or hub id is a language model that `transformers` saved; for a classifier, a tagger or
    a masked language model, give what `load_checkpoint` returns.

    An attack that plants before training needs what it planted (`SavedRun.planted`). One that only
    tells who trained from who did not reads that from the splits: rows of `train` are members, and
    rows of `held_out` are not. Nothing is trained for it, so an attack that compares with models
    of its own does without them (`membership` of a classifier: give `shadow_models=0`).

    Args:
        release: under attack, or where a causal language model is.
        corpus: its rows, with all splits.
        name: name of the attack.
        planted: secrets that the attack had planted before the release was trained.
        base: the model before it learnt the private rows, or where it is; of `membership`, the
            strongest scores that need no other models compare with it.
        seed: seed of the attack's own draws.
        parameters: parameters of the attack.

    Raises:
        InputError: for an unknown name or parameter, or an attack that must plant first.
        CapabilityError: if the release has nothing that the attack asks.
    """
    from uedp_bench.one_run.evaluation import withheld  # torch
    from uedp_bench.one_run.protecting import lacks

    live: Attack[Any] = registry.attacks.create(name, parameters)
    if isinstance(release, Path | str):
        release = load_checkpoint(release, corpus)
    reason = lacks(live.required_capabilities(), release) or withheld(
        live.required_capabilities(), release
    )
    reason = reason or live.refuses(release, corpus) or live.refuses_events(release.events)
    if reason is not None:
        raise CapabilityError(f"the attack {name} {reason}")
    if planted is None:
        planted = planted_in(live, corpus, seed)
    if planted is None:
        raise InputError(
            f"the attack {live.name} plants before training, and nothing says what was planted "
            "here: run it within a benchmark (`run`), or give `planted` of the run (`load_run`)"
        )
    if isinstance(base, Path | str):
        base = _base(base, release, corpus)
    context = Run(seed, counted_sizes(corpus), scope=f"attack {name}").retraining(None, base)
    return live.run(release, planted, corpus, context.within(f"attack {name}"))


def _base(where: Path | str, release: Release, corpus: Corpus) -> Release:
    """A base model, read in the type and format of the checkpoint that is compared with it."""
    from uedp_bench.tasks.language.language_model import LanguageModelRelease  # torch

    if not isinstance(release, LanguageModelRelease) or not release.reader.model.trained_elsewhere:
        return load_checkpoint(where, corpus)
    tuned: Any = release.reader.model
    params = tuned.params.model_copy(update={"base": str(where), "base_revision": None})
    return _as_saved(type(tuned)(params).before_training(), corpus)


def _result(folder: Path) -> Result:
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder} is no folder of a run: it holds no result.json")
    result = Result.from_recorded(read_result(folder / "result.json"))
    if result.error is not None:
        raise InputError(f"{folder}: the run failed: {result.error.message}")
    return result


def _release(folder: Path, result: Result) -> Release:
    where = folder / "release"
    if not where.is_dir():
        raise InputError(
            f"{folder} holds no release: remove it, and run again without --no-release (with "
            "--releases on a cluster)"
        )
    events = {"events": result.events}
    return load_saved(build(result.spec).task, where).showing(**events)
