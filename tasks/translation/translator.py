"""A translator: how it reads pairs of texts, what it answers, and how its translations score.

Scores are BLEU, chrF, lengths and recall of terms, with intervals over documents; and floors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from uedp_bench.api import (
    BoolArray,
    Corpus,
    Estimate,
    FloatArray,
    InputError,
    IntArray,
    UedpBenchError,
)
from uedp_bench.api.networks import Batch, Losses, Reader, on_device
from uedp_bench.api.statistics import ratio_estimate
from uedp_bench.components.component import SACREBLEU
from uedp_bench.contracts.learner import example_ids, numbers_per_call
from uedp_bench.statistics.intervals import RESAMPLES, blocks, percentiles, resample
from uedp_bench.tasks.tokens.reader import SupervisedRelease, batches_by_length
from uedp_bench.tasks.tokens.rows import IGNORED, Columns, TextRows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.text.word_alignment import Words

_NUMBERS_AT_ONCE = 2**23
"""Logits of one batch, at most (32 MB)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairReader(Reader):
    """Reader of texts and their translations.

    Attributes:
        max_tokens: tokens of a text, and of a translation, past this many are left out; the end of
            a text is kept.
        beams: number of hypotheses of a translation.
    """

    max_tokens: int
    beams: int = 1

    FILE: ClassVar[str] = "translator.json"
    similar: ClassVar[bool] = True
    sized: ClassVar[tuple[str, ...]] = ("tokens", "targets")

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts, each with an end."""
        return self._ended(self.vocabulary.encode(texts))

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `Reader`: rows with a text and a translation."""
        return translated_rows(corpus)

    def read(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`; the end of a translation that is too long is left out."""
        texts = self.vocabulary.encode(corpus.texts)
        targets = self.vocabulary.encode_targets(corpus.targets or ())
        pairs = zip(texts, targets, strict=True)
        cut = sum(max(len(one), len(other)) >= self.max_tokens for one, other in pairs)
        ended = [[*ids, self.vocabulary.end][: self.max_tokens] for ids in targets]
        return {"tokens": self._rows(self._ended(texts), cut), "targets": self._rows(ended)}

    def examples(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`: random tokens on both sides."""
        ids = example_ids(self.vocabulary.size, self.max_tokens)
        return {"tokens": self._rows(ids), "targets": self._rows(ids[::-1])}

    def batch(self, columns: Mapping[str, Any], rows: IntArray, seeds: IntArray) -> dict[str, Any]:
        """See `Reader`: `tokens`, `lengths`, `inputs` and `targets`; seeds decide nothing."""
        inputs, targets = columns["targets"].padded(rows)
        source = super().batch({"tokens": columns["tokens"]}, rows, seeds)
        return {**source, "inputs": inputs, "targets": targets}

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """See `Reader`: the logits of a translation."""
        return int(columns.columns["targets"].lengths.max(initial=1)) * int(self.vocabulary.size)

    def network(self, seed: int, head_seed: int) -> nn.Module:
        """See `Reader`."""
        module: nn.Module = self.model.build_translator(self.vocabulary, seed)
        return module

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of the target of each row and its end, given the text."""
        from uedp_bench.api.training import ModuleSet
        from uedp_bench.models.fast.output_nats import output_nats, token_nats
        from uedp_bench.models.networks.modules import OutputLayer

        targets, lengths = batch["targets"], batch["lengths"]
        if isinstance(module, ModuleSet):
            nats = token_nats(module(batch["tokens"], lengths, batch["inputs"]), targets)
        else:
            network: Any = module
            memory = network.encode(batch["tokens"], lengths)
            features = network.decode(batch["inputs"], memory, lengths)
            nats = output_nats(features, OutputLayer(*network.output_layer()), targets)
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> TranslatorRelease:
        """See `Reader`."""
        return TranslatorRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """See `Reader`."""
        self.model.save_translator(module, folder)

    def load_network(self, folder: Path) -> nn.Module:
        """See `Reader`."""
        module: nn.Module = self.model.load_translator(self.vocabulary, folder)
        return module

    def _ended(self, ids: Sequence[Sequence[int]]) -> list[list[int]]:
        return [[*row[: self.max_tokens - 1], self.vocabulary.end] for row in ids]

    def _rows(self, ids: list[list[int]], cut: int = 0) -> TextRows:
        return replace(TextRows.build(ids, self.vocabulary, cut), begin=self.vocabulary.start)


def translated_rows(corpus: Corpus) -> BoolArray:
    """(rows,) True where a row has a text and a translation."""
    if corpus.targets is None:
        return np.zeros(len(corpus), dtype=bool)
    pairs = zip(corpus.texts, corpus.targets, strict=True)
    both = (bool(text.strip() and target.strip()) for text, target in pairs)
    return np.fromiter(both, dtype=bool, count=len(corpus))


class TranslatorRelease(SupervisedRelease):
    """Translator, PairScorer and RowScorer; `events` are set by the harness."""

    reader: PairReader

    def translate(self, texts: Sequence[str]) -> list[str]:
        """See `Translator`; a text without words has an empty translation."""
        rows = self.reader.sources(texts)
        # The end alone is no text: nothing is asked about it.
        lengths = np.array([len(row) if len(row) > 1 else 0 for row in rows], dtype=np.int64)
        translations = [""] * len(texts)
        for chosen in batches_by_length(lengths, self._rows_at_once, least=1):
            numbers = chosen.tolist()
            for row, ids in zip(numbers, self._translated([rows[i] for i in numbers]), strict=True):
                translations[row] = self.vocabulary.decode(ids)
        return translations

    def pair_losses(self, texts: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """See `PairScorer`.

        Raises:
            InputError: if there are not as many texts as targets.
            UedpBenchError: if a loss is NaN.
        """
        import torch

        if len(texts) != len(targets):
            raise InputError(f"pair_losses: {len(texts)} texts and {len(targets)} targets")
        rows = np.zeros(len(texts), dtype=np.int64)
        corpus = Corpus(tuple(texts), {"user": rows - 1}, rows, targets=tuple(targets))
        learner, out = self.learner(corpus), np.empty(len(texts))
        with torch.no_grad():
            for chosen in batches_by_length(learner.row_lengths, self._rows_at_once):
                batch = on_device(learner.batch(chosen, np.zeros_like(chosen)), str(self.device))
                out[chosen] = learner.losses(self.module, batch).nats.double().cpu().numpy()
        if np.isnan(out).any():
            raise UedpBenchError(f"the loss of pair {int(np.isnan(out).argmax())} is NaN")
        return out

    def _rows_at_once(self, length: int) -> int:
        numbers = max(length, 1) * int(self.vocabulary.size) * self.reader.beams
        most = numbers_per_call(_NUMBERS_AT_ONCE, self.device)
        return max(1, min(self.reader.score_rows, most // numbers))

    def _translated(self, rows: list[list[int]]) -> list[list[int]]:
        """Tokens of the translations of some rows, which are not empty."""
        import torch

        from uedp_bench.api.training import modules_of
        from uedp_bench.models.networks.translators import Search, translated

        vocabulary, reader = self.vocabulary, self.reader
        search = Search(
            vocabulary.start, vocabulary.end, vocabulary.never, reader.beams, reader.max_tokens
        )
        networks: Any = modules_of(self.module)
        sources = TextRows.build(rows, vocabulary)
        table = sources.table(np.arange(len(rows)), vocabulary.end)
        tokens, sizes = torch.from_numpy(table), torch.from_numpy(sources.lengths)
        return translated(networks, tokens.to(self.device), sizes.to(self.device), search)


_BOOTSTRAP_SEED = 2018

_WORD = re.compile(r"\w+")


class Metrics(NamedTuple):
    """The metrics of sacrebleu, as `metrics` makes them."""

    bleu: Any
    chrf: Any

    def signatures(self) -> dict[str, str]:
        """Signatures of the scores, by sacrebleu; a score must have been computed before."""
        return {"bleu": str(self.bleu.get_signature()), "chrf": str(self.chrf.get_signature())}


def metrics() -> Metrics:
    """BLEU (13a, mixed case, exponential smoothing) and chrF2 of sacrebleu, at its defaults.

    Raises:
        MissingExtraError: if sacrebleu is not installed.
    """
    SACREBLEU.check()
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Tokenised sources end in " .", of which sacrebleu warns unless it is told.
    return Metrics(BLEU(force=True), CHRF())


class Translations(NamedTuple):
    """Translations of test rows beside those that people wrote.

    Attributes:
        outputs: (rows,) translations by the release.
        references: (rows,) translations by people.
        clusters: (rows,) rows of equal numbers are resampled together.
    """

    outputs: Sequence[str]
    references: Sequence[str]
    clusters: IntArray

    def scores(self, metric: Metrics) -> dict[str, Estimate]:
        """`bleu`, `chrf` (0 to 100), `length_ratio` and `brevity_penalty`."""
        bleu = self._statistics(metric.bleu)
        # Counts of translated and reference tokens come first in the statistics of BLEU.
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        ratio = ratio_estimate(bleu[:, 0], bleu[:, 1], rng, self.clusters)
        return {
            "bleu": self._estimate(bleu, _score_of(metric.bleu)),
            "chrf": self._estimate(self._statistics(metric.chrf), _score_of(metric.chrf)),
            "length_ratio": ratio,
            "brevity_penalty": self._estimate(bleu, _brevity),
        }

    def bleu(self, metric: Metrics) -> Estimate:
        """BLEU alone."""
        return self._estimate(self._statistics(metric.bleu), _score_of(metric.bleu))

    def recall(self, terms: Collection[str]) -> Estimate | None:
        """Share of the occurrences of terms in references that are in translations; None for none.

        A translation that repeats a term gains nothing.
        """
        hits, wanted = np.zeros(len(self.outputs)), np.zeros(len(self.outputs))
        for row, (translation, reference) in enumerate(
            zip(self.outputs, self.references, strict=True)
        ):
            term_counts = Counter(word for word in words(reference) if word in terms)
            word_counts = Counter(words(translation))
            wanted[row] = term_counts.total()
            hits[row] = sum(min(count, word_counts[word]) for word, count in term_counts.items())
        if not wanted.any():
            return None
        return ratio_estimate(hits, wanted, np.random.default_rng(_BOOTSTRAP_SEED), self.clusters)

    def _statistics(self, metric: Any) -> FloatArray:
        """(rows, statistics) of each row: their sums over rows decide the score.

        sacrebleu's own bootstrap resamples rows; documents are resampled here.
        """
        statistics_of_rows = metric._extract_corpus_statistics(
            list(self.outputs), [list(self.references)]
        )
        return np.array(statistics_of_rows, dtype=np.float64)

    def _estimate(self, statistics: FloatArray, score: Callable[[FloatArray], float]) -> Estimate:
        """A score of summed statistics with its percentile interval over clusters."""
        numbers = np.unique(self.clusters, return_inverse=True)[1].reshape(-1)
        sums = np.zeros((int(numbers.max()) + 1, statistics.shape[1]))
        np.add.at(sums, numbers, statistics)
        value, units = score(sums.sum(axis=0)), len(sums)
        if units < 2:
            return Estimate(value=value)
        rng, drawn = np.random.default_rng(_BOOTSTRAP_SEED), np.empty(RESAMPLES)
        at = 0
        for size in blocks(units):
            drawn[at : at + size] = [score(total) for total in resample(units, size, rng) @ sums]
            at += size
        return percentiles(value, drawn)


def _score_of(metric: Any) -> Callable[[FloatArray], float]:
    def score(statistics: FloatArray) -> float:
        return float(metric._compute_score_from_stats(statistics.tolist()).score)

    return score


def _brevity(statistics: FloatArray) -> float:
    """BLEU's brevity penalty, from the token counts of translations and of references."""
    length, wanted = statistics[:2]
    if length >= wanted:
        return 1.0
    return float(np.exp(1.0 - wanted / length)) if length else 0.0


def clusters_of(corpus: Corpus) -> IntArray:
    """(rows,) the user of each row; rows without one go together where their pairs are equal."""
    pairs = zip(corpus.texts, corpus.targets or corpus.texts, strict=True)
    numbers: dict[tuple[str, str], int] = {}
    of_pair = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.int64)
    return np.where(corpus.users >= 0, corpus.users, corpus.users.max(initial=-1) + 1 + of_pair)


def words(text: str) -> list[str]:
    """Words of a text without signs, as they are written."""
    return _WORD.findall(text)


def unseen_terms(corpus: Corpus) -> frozenset[str]:
    """Words of the test targets that no public target has, without those that are mere numbers."""
    targets = corpus.targets or ()
    public = {
        word
        for row in np.flatnonzero(corpus.where("public")).tolist()
        for word in words(targets[row])
    }
    test = {w for row in np.flatnonzero(corpus.where("test")).tolist() for w in words(targets[row])}
    return frozenset(word for word in test - public if not word.isnumeric())


class Lexicon:
    """The most probable translation of each word, by alignment of public or training pairs.

    Args:
        pairs: texts and their translations.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        from uedp_bench.text.word_alignment import DirectedModel

        word_pairs: list[tuple[Words, Words]] = [
            (one.split(), other.split()) for one, other in pairs
        ]
        model = DirectedModel.train(word_pairs)
        sources, targets = list(model.sources), list(model.targets)
        source, target = np.divmod(model.keys, len(targets))
        # Ascending: what is written last is the most probable.
        order = np.argsort(model.probabilities, kind="stable")
        self._best = {
            sources[one]: targets[other]
            for one, other in zip(source[order].tolist(), target[order].tolist(), strict=True)
            if one > 0 and other > 0
        }

    def __len__(self) -> int:
        return len(self._best)

    def translate(self, text: str) -> str:
        """Word by word, in the order of the text; unknown words stay as they are."""
        return " ".join(self._best.get(word, word) for word in text.split())
