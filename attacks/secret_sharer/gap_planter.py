"""How secrets of the layouts HS, HSH and HHSHH are planted among the words of rows."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.attacks._inserting import inserted
from uedp_bench.attacks._planting import pool_words, replace_rows
from uedp_bench.attacks.secret_sharer.canary import PlantedCanaries, PlantedSecret
from uedp_bench.corpus import or_alone
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.attacks.secret_sharer.parameters import SecretSharerParams
    from uedp_bench.corpus import BoolArray, Corpus, IntArray

GENERIC = {"HS": (1, 0), "HSH": (1, 1), "HHSHH": (2, 2)}
"""Generic words before and after the secret of each layout."""


class GapPlanter:
    """Plants secret words among generic ones (Hoory et al. 2021, section 5.2).

    Secrets are drawn uniformly from a pool of public words, independently of each other, so that
    one that nobody learnt is exchangeable with every other word of the pool. The generic word
    before the secret is another one for each secret, so that two secrets never ask for one gap.

    Args:
        params: of the attack.
    """

    def __init__(self, params: SecretSharerParams) -> None:
        self.params = params

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedCanaries]:
        """Inserts the secrets at word boundaries of rows, or replaces rows by them.

        Raises:
            InputError: if there are too few words, rows, or rows of one user.
        """
        p = self.params
        # Rows that another attack planted are left to it.
        free = corpus.where("train") & (corpus.origin >= 0)
        if not free.any():
            raise InputError("secret-sharer: the train split has no row to plant secrets in")
        words, split, notes = pool_words(corpus, p.word_pool)
        wanted = [
            (layout, copies)
            for copies, layout in product(sorted(p.occurrences), p.layout)
            for _ in range(p.canaries)
        ]
        if len(words) < max(2, len(wanted)):
            raise InputError(
                f"secret-sharer: the {split} split has {len(words)} usable words (lower-case, "
                f"alphabetic); {len(wanted)} secrets need as many different words before them"
            )
        users, size = or_alone(corpus.users), int(free.sum())
        secrets: list[PlantedSecret] = []
        rows: list[IntArray] = []
        firsts = rng.permutation(len(words))[: len(wanted)].tolist()
        for first, (layout, copies) in zip(firsts, wanted, strict=True):
            count = copies if isinstance(copies, int) else max(1, round(copies * size))
            hit = self._rows(users, free, count, rng)
            if p.planting == "rows":
                free[hit] = False
            drawn = [words[i] for i in rng.integers(len(words), size=sum(GENERIC[layout])).tolist()]
            before, secret, after = _words_of(layout, words[first], drawn)
            sharers = len(np.unique(users[hit]))
            secrets.append(
                PlantedSecret(
                    layout=layout, before=before, secret=secret, after=after, copies=copies,
                    occurrences=count, sharers=sharers,
                )
            )  # fmt: skip
            rows.append(hit)
        if p.planting == "rows":
            texts = [secret.text for secret, hit in zip(secrets, rows, strict=True) for _ in hit]
            corpus = replace_rows(corpus, np.concatenate(rows), texts, ())
        else:
            pieces = [(secret.text, hit) for secret, hit in zip(secrets, rows, strict=True)]
            corpus = inserted(corpus, pieces, rng)
        return corpus, PlantedCanaries(
            canaries=(), words=words, notes=tuple(notes), secrets=tuple(secrets)
        )

    def _rows(
        self, users: IntArray, free: BoolArray, count: int, rng: np.random.Generator
    ) -> IntArray:
        """Distinct free rows, of as many users as hold the copies."""
        able = np.flatnonzero(free)
        if not self.params.sharers or not count:
            if len(able) < count:
                raise InputError(
                    f"secret-sharer.occurrences: {count} rows are needed for a secret, and the "
                    f"train split has {len(able)} that nothing else was planted in"
                )
            return rng.choice(able, count, replace=False)
        number = min(self.params.sharers, count)
        shares = np.full(number, count // number)
        shares[: count % number] += 1
        have = np.bincount(users[able])
        enough = np.flatnonzero(have >= shares.max())
        if len(enough) < number:
            raise InputError(
                f"secret-sharer.sharers is {self.params.sharers}: {count} copies in {number} users "
                f"need {number} users of the train split with {shares.max()} rows each; there are "
                f"{len(enough)}, and nobody has more than {have.max(initial=0)}"
            )
        chosen = rng.choice(enough, number, replace=False)
        return np.concatenate(
            [
                rng.choice(able[users[able] == user], share, replace=False)
                for user, share in zip(chosen.tolist(), shares.tolist(), strict=True)
            ]
        )


def _words_of(layout: str, first: str, drawn: list[str]) -> tuple[str, str, str]:
    """Words before the secret, the secret, and words after it; the nearest before it is `first`."""
    others = GENERIC[layout][0] - 1
    ahead, (secret, *behind) = drawn[:others], drawn[others:]
    return " ".join([*ahead, first]), secret, " ".join(behind)
