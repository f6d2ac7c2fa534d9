"""The corpus: the one typed table that sources make and that everything else reads.

A row is the smallest independent training example; no state crosses rows. A row belongs to a user
(and to further groups), carries character spans of entities and further annotations, a label,
private attributes of its author, and the split that it is in.
"""

from uedp_bench.corpus._columns import Facts
from uedp_bench.corpus.keys import (
    BoolArray,
    FeatureArray,
    FloatArray,
    Index,
    IntArray,
    Names,
    distinct,
    names_of_ids,
    normal_id,
    normal_spelling,
    normal_surface,
    without_ignorables,
)
from uedp_bench.corpus.rewriting import Edit, Piece, Rewriting
from uedp_bench.corpus.spans import Alignment, Layer, LostSpans, Mention, Spans
from uedp_bench.corpus.stable_names import (
    keyed_uniform,
    named_users,
    owner_numbers,
    row_ids,
    row_names,
    row_numbers,
    user_names,
    user_numbers,
    with_documents,
    with_lone_rows,
    with_names,
)
from uedp_bench.corpus.table import (
    COLUMNS,
    CONTENT,
    SPLITS,
    Corpus,
    concatenate,
    dense_ids,
    or_alone,
)
from uedp_bench.data.stored_rows import StoredTexts, replaced_texts, some_texts

__all__ = [
    "COLUMNS",
    "CONTENT",
    "SPLITS",
    "Alignment",
    "BoolArray",
    "Corpus",
    "Edit",
    "Facts",
    "FeatureArray",
    "FloatArray",
    "Index",
    "IntArray",
    "Layer",
    "LostSpans",
    "Mention",
    "Names",
    "Piece",
    "Rewriting",
    "Spans",
    "StoredTexts",
    "concatenate",
    "dense_ids",
    "distinct",
    "keyed_uniform",
    "named_users",
    "names_of_ids",
    "normal_id",
    "normal_spelling",
    "normal_surface",
    "or_alone",
    "owner_numbers",
    "replaced_texts",
    "row_ids",
    "row_names",
    "row_numbers",
    "some_texts",
    "user_names",
    "user_numbers",
    "with_documents",
    "with_lone_rows",
    "with_names",
    "without_ignorables",
]
