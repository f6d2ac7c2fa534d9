"""Translations of rows by a network with an encoder and a decoder: greedy and by beam search.

Rows are searched side by side, and what is found for a row depends on that row alone: each has a
limit of its own, and leaves the batch when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.products import FasterProducts

if TYPE_CHECKING:
    from uedp_bench.contracts.model import TranslationModule

LONGEST = (2, 10)
"""A translation has at most so many times the tokens of its source, and so many more."""


@dataclass(frozen=True)
class Search:
    """Settings of a search for translations.

    Attributes:
        start: id that the decoder begins with.
        end: id that ends a translation.
        never: ids that are in no translation.
        beams: hypotheses of a row; 1 takes the most probable token at each step.
        most: tokens of a translation, at most; see `LONGEST` too.
    """

    start: int
    end: int
    never: tuple[int, ...]
    beams: int = 1
    most: int = 256

    def limits(self, lengths: Tensor) -> Tensor:
        """(rows,) tokens of each translation, its end among them, at most."""
        times, more = LONGEST
        return (times * lengths + more).clamp(max=self.most)


class _Hypothesis(NamedTuple):
    """A finished translation: mean log-probability of its tokens, and these without the end."""

    score: float
    tokens: list[int]


@torch.no_grad()
def translated(
    networks: Sequence[TranslationModule], tokens: Tensor, lengths: Tensor, search: Search
) -> list[list[int]]:
    """Token ids of the translation of each row, without start and end.

    Hypotheses of a beam compare by their mean log-probability a token, end included. A row is done
    when as many are finished as the beam is wide, or at its limit.

    Args:
        networks: networks in evaluation mode; of several, the mean of their probabilities counts.
        tokens: (rows, source length) ids, padded on the right.
        lengths: (rows,) tokens of each row.
        search: settings of the search.
    """
    with FasterProducts():
        sources = _Sources(networks, [each.encode(tokens, lengths) for each in networks], lengths)
        return (_greedy if search.beams == 1 else _beam)(sources, search)


class _Sources(NamedTuple):
    """Networks, what each made of the rows, and the numbers of their tokens (rows,)."""

    networks: Sequence[TranslationModule]
    memories: list[Tensor]
    lengths: Tensor

    def next_logprobs(self, inputs: Tensor, rows: Tensor, search: Search) -> Tensor:
        """(questions, vocabulary) log-probabilities of the next token, of those that may be next.

        Args:
            inputs: (questions, length) ids so far.
            rows: (questions,) row of each.
            search: settings that exclude tokens.
        """
        by_network = []
        for network, memory in zip(self.networks, self.memories, strict=True):
            last = network.decode(inputs, memory[rows], self.lengths[rows])[:, -1]
            logits = functional.linear(last, *network.output_layer()).float()
            logits[:, list(search.never)] = -torch.inf
            by_network.append(torch.log_softmax(logits, dim=-1))
        return (
            by_network[0]
            if len(by_network) == 1
            else torch.stack(by_network).logsumexp(0) - log(len(by_network))
        )


def _greedy(sources: _Sources, search: Search) -> list[list[int]]:
    lengths = sources.lengths
    limits = search.limits(lengths)
    translations: list[list[int]] = [[] for _ in lengths]
    open_rows = torch.arange(len(lengths), device=lengths.device)
    inputs = torch.full((len(lengths), 1), search.start, device=lengths.device)
    while len(open_rows):
        chosen = sources.next_logprobs(inputs, open_rows, search).argmax(dim=-1)
        for row, token in zip(open_rows.tolist(), chosen.tolist(), strict=True):
            if token != search.end:
                translations[row].append(token)
        going = (chosen != search.end) & (inputs.shape[1] < limits[open_rows])
        inputs, open_rows = torch.cat([inputs, chosen[:, None]], dim=1)[going], open_rows[going]
    return translations


def _beam(sources: _Sources, search: Search) -> list[list[int]]:
    lengths = sources.lengths
    rows, width, device = len(lengths), search.beams, lengths.device
    limits = search.limits(lengths).tolist()
    done: list[list[_Hypothesis]] = [[] for _ in range(rows)]
    open_rows = torch.arange(rows, device=device)
    inputs = torch.full((rows, 1, 1), search.start, device=device)
    scores = torch.zeros(rows, 1, device=device)
    while len(open_rows):
        of_row = open_rows.repeat_interleave(inputs.shape[1])
        logp = sources.next_logprobs(inputs.flatten(0, 1), of_row, search)
        total = scores[:, :, None] + logp.view(*scores.shape, -1)
        size = total.shape[-1]
        # Twice as many as are kept: at most one token of each hypothesis ends it.
        best, at = total.flatten(1).topk(min(2 * width, total[0].numel()), dim=1)
        kept_rows, next_inputs, next_scores = [], [], []
        for i, row in enumerate(open_rows.tolist()):
            going = _step(done[row], inputs[i], best[i], at[i], size, search)
            full = len(done[row]) >= width or inputs.shape[2] >= limits[row]
            if inputs.shape[2] >= limits[row] and not done[row]:
                done[row] = [_Hypothesis(s / inputs.shape[2], t[1:]) for s, t in going]
            if not full:
                kept_rows.append(row)
                next_inputs.append([tokens for _, tokens in going])
                next_scores.append([score for score, _ in going])
        open_rows = torch.tensor(kept_rows, dtype=torch.long, device=device)
        inputs = torch.tensor(next_inputs, device=device)
        scores = torch.tensor(next_scores, device=device)
    return [max(each, key=lambda hypothesis: hypothesis.score).tokens for each in done]


def _step(
    done: list[_Hypothesis], inputs: Tensor, best: Tensor, at: Tensor, size: int, search: Search
) -> list[tuple[float, list[int]]]:
    """Hypotheses of a row that go on, with their log-probabilities; finished ones join `done`."""
    going: list[tuple[float, list[int]]] = []
    for score, place in zip(best.tolist(), at.tolist(), strict=True):
        if len(going) == search.beams:
            break
        before, token = divmod(place, size)
        tokens = inputs[before].tolist()
        if token == search.end:
            if len(done) < search.beams:
                done.append(_Hypothesis(score / len(tokens), tokens[1:]))
        else:
            going.append((score, [*tokens, token]))
    return going
