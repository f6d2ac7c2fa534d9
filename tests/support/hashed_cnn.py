"""`text-cnn` on vectors that no pretrained encoder is needed for."""

from __future__ import annotations

from collections.abc import Sequence

from text_encoders import HashedWords, MeanParams

from uedp_bench.components import registry
from uedp_bench.corpus import FeatureArray
from uedp_bench.models.text_cnn import TextCNN

SIZE = 160


@registry.models.register
class HashedCNN(TextCNN):
    """The network of `text-cnn` on the mean of fixed random vectors, one for every word."""

    name = "hashed-cnn"

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        return HashedWords(MeanParams(width=SIZE)).features(texts, device)

    def feature_size(self) -> int:
        return SIZE
