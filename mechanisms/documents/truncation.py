"""Truncation: sentence vectors are clipped to a box, averaged, and get Laplace noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from uedp_bench.api import CorpusStats, Events, InputError, PrivacyError, equals
from uedp_bench.api.events import Claim, LaplaceVector, PrivacyEvent
from uedp_bench.mechanisms._noise import add_laplace
from uedp_bench.mechanisms.documents.sentence_mechanism import (
    ASSUMPTIONS,
    DocumentMechanism,
    DocumentParams,
    Documents,
)

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, Run

Box = tuple["FloatArray", "FloatArray"]
"""(d,) lower and (d,) upper ends."""

_SHARE = 0.75  # of public documents that are inside the box, on each dimension
_LEAST = 8  # public documents: with fewer, none is outside of the middle three quarters


class TruncationParams(DocumentParams):
    """Parameters of truncation."""

    dimension: int | None = Field(
        default=None,
        ge=1,
        exclude_if=equals(None),
        description="d: coordinates of the encoder's vectors; where it is given, epsilon is proven "
        "at the run's delta too, which is far less",
    )


class Truncation(DocumentMechanism[TruncationParams, Box]):
    """Sentence vectors are clipped to a public box, averaged, and get Laplace noise.

    Dimension j of a document of k sentences gets noise of scale d w_j / (k epsilon), w_j being the
    width of the box: the middle 75 % of the public documents' mean vectors.
    """

    name = "truncation"
    version = 2
    source = "Meehan, Mrini, Chaudhuri 2022, Section 5.3, A.3; after Li and Clifton 2021"
    Params = TruncationParams

    def events(self, epsilon: float) -> Events:
        """One noisy vector a document."""
        return (
            PrivacyEvent(
                unit="sentence",
                adjacency="replace-one",
                event=self._laplace(epsilon, self.params.dimension or 1),
                assumptions=(
                    *ASSUMPTIONS,
                    "the sentence encoder and the box are public; widths of the box and 1/k are "
                    "the units of scale and sensitivity, divided by d",
                ),
            ),
        )

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """See `DocumentMechanism`."""
        return (
            Claim(
                unit="sentence",
                adjacency="replace-one",
                event=self._laplace(self.params.epsilon, 1),
                accountant="basic",
                source=self.source,
            ),
        )

    def fit(self, public: Documents, run: Run) -> Box:
        """The box: the median interval of the public documents' mean vectors."""
        width = public.vectors.shape[1]
        if self.params.dimension not in (None, width):
            raise InputError(
                f"{self.name}.dimension is {self.params.dimension}, but the encoder's vectors have "
                f"{width} coordinates; set {self.name}.dimension to {width}"
            )
        if len(public) < _LEAST:
            raise InputError(
                f"{self.name} takes its box from public documents, and there are {len(public)} of "
                f"at least {self.params.min_sentences} sentences; it needs {_LEAST}: set "
                "source.public_share=0.1, say"
            )
        low, high = np.quantile(public.means(), [(1 - _SHARE) / 2, (1 + _SHARE) / 2], axis=0)
        return low, high

    def protect(
        self, documents: Documents, fitted: Box, rngs: Sequence[np.random.Generator]
    ) -> tuple[FloatArray, float]:
        """(documents, d) noisy means of clipped sentence vectors.

        Raises:
            PrivacyError: if vectors were not clipped, or the means do not have their noise.
        """
        low, high = fitted
        clipped = np.clip(documents.vectors, low, high)
        if ((clipped < low) | (clipped > high)).any():
            raise PrivacyError(
                f"{self.name}: a sentence vector lies outside the box after clipping, so that the "
                "noise is not that of its width"
            )
        means = Documents(clipped, documents.lengths).means()
        sentences = documents.lengths[:, None]
        scales = scale(low, high, self.params.epsilon) / sentences
        return add_laplace(means, (high - low) / sentences, scales, rngs)

    def _laplace(self, epsilon: float, coordinates: int) -> LaplaceVector:
        return LaplaceVector(scale=1.0 / epsilon, sensitivity=1.0, coordinates=coordinates)


def scale(low: FloatArray, high: FloatArray, epsilon: float) -> FloatArray:
    """(d,) Laplace scale of every dimension for a document of one sentence.

    A dimension of width 0 is constant and public; it needs no noise, and gets none.
    """
    return len(low) * (high - low) / epsilon
