"""One rule for pipelines holds wherever one finds something that a guarantee rests on."""

from __future__ import annotations

from typing import Any

import pytest

from uedp_bench.components.component import Params, parse_params
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus.entity_detection import documented
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify, DeidentifyParams
from uedp_bench.tasks.sources.ag_news import AGNews, AGNewsParams
from uedp_bench.text.automatic_annotation import AnnotationParams

STATS = CorpusStats(users=5, rows=10, sensitive_rows=0, entities=0, public=True)


def of_deidentify(**options: Any) -> tuple[str, ...]:
    return Deidentify(DeidentifyParams(detector="spacy", **options)).refusals(STATS)


def of_source(**options: Any) -> tuple[str, ...]:
    return AGNews(AGNewsParams(path="nowhere", detector="spacy", **options)).all_refusals()


def of_annotation(**options: Any) -> tuple[str, ...]:
    annotation = AnnotationParams(candidates="spacy", **options)
    return AGNews(AGNewsParams(path="nowhere", annotate=annotation)).all_refusals()


EVERYWHERE = pytest.mark.parametrize("refusals", [of_deidentify, of_source, of_annotation])


@EVERYWHERE
@pytest.mark.parametrize("pipeline", ["./mine", "/data/en_core_web_sm", "en_ours_web_sm", "mine"])
def test_a_pipeline_of_unknown_training_is_to_be_declared(refusals, pipeline):
    (reason,) = refusals(pipeline=pipeline)
    assert "public text" in reason
    assert "pipeline_is_public" in reason
    assert refusals(pipeline=pipeline, pipeline_is_public=True) == ()


@EVERYWHERE
def test_spacys_own_packages_are_public_by_their_documentation(refusals):
    assert refusals(pipeline="en_core_web_sm") == ()


def test_a_folder_that_is_called_like_a_package_is_no_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert documented("xx_ent_wiki_sm")
    (tmp_path / "xx_ent_wiki_sm").mkdir()
    assert not documented("xx_ent_wiki_sm")


@pytest.mark.parametrize("form", [DeidentifyParams, AGNewsParams, AnnotationParams])
def test_a_declaration_about_nothing_is_an_error(form: type[Params]):
    settings = {"pipeline_is_public": True} | ({"path": "x"} if form is AGNewsParams else {})
    with pytest.raises(InputError, match="pipeline_is_public"):
        parse_params(form, settings, "it")


def test_specs_that_declare_nothing_keep_their_identity():
    for form in (DeidentifyParams(), AGNewsParams(path="x")):
        assert "pipeline_is_public" not in form.model_dump()
