"""Every source has the parameters that all sources have, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.component import Params
from uedp_bench.contracts.source import Source
from uedp_bench.contracts.source_rows import SourceParams
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import PluginError


class Three(Source[SourceParams]):
    """Reads three rows, and knows nothing of public text."""

    name = "three"
    Params = SourceParams

    def read(self) -> Corpus:
        split = np.array([SPLITS.index(name) for name in ("train", "valid", "test")])
        return Corpus(texts=("a b", "c", "d"), groups={"user": np.arange(3)}, split=split)


class Loose(Three):
    """Its parameters are not those of a source."""

    Params = Params


def test_shared_parameters_hold_for_a_source_that_does_not_know_them(tmp_path: Path) -> None:
    assert Three.create().load().split.tolist() == [0, 1, 2]
    file = tmp_path / "public.txt"
    file.write_text("anybody may\nread this\n")
    corpus = Three.create({"public": [str(file)], "valid_is_public": True}).load()
    assert corpus.only("public").texts == ("c", "anybody may", "read this")


def test_a_source_whose_parameters_are_no_source_parameters_is_refused() -> None:
    with pytest.raises(PluginError, match=r"'three'.*Params.*SourceParams"):
        Loose.create().load()
