"""The corpus: the one typed table that sources make and that everything else reads.

A row is the smallest independent training example; no state crosses rows. A row belongs to a user
(and to further groups), carries character spans of entities and further annotations, a label,
private attributes of its author, and the split that it is in.
"""

from uedp_bench.corpus._columns import Facts
from uedp_bench.corpus.alignment import Alignment
from uedp_bench.corpus.normal_form import (
    normal_id,
    normal_spelling,
    normal_surface,
    without_ignorables,
)
from uedp_bench.corpus.rewriting import Edit, Piece, Rewriting
from uedp_bench.corpus.row_ids import row_ids
from uedp_bench.corpus.row_index import BoolArray, FloatArray, Index, IntArray, distinct
from uedp_bench.corpus.spans import Layer, LostSpans, Mention, Spans
from uedp_bench.corpus.table import (
    COLUMNS,
    CONTENT,
    SPLITS,
    Corpus,
    concatenate,
    dense_ids,
    or_alone,
)
from uedp_bench.files.stored_texts import StoredTexts, replaced_texts, some_texts

__all__ = [
    "COLUMNS",
    "CONTENT",
    "SPLITS",
    "Alignment",
    "BoolArray",
    "Corpus",
    "Edit",
    "Facts",
    "FloatArray",
    "Index",
    "IntArray",
    "Layer",
    "LostSpans",
    "Mention",
    "Piece",
    "Rewriting",
    "Spans",
    "StoredTexts",
    "concatenate",
    "dense_ids",
    "distinct",
    "normal_id",
    "normal_spelling",
    "normal_surface",
    "or_alone",
    "replaced_texts",
    "row_ids",
    "some_texts",
    "without_ignorables",
]
