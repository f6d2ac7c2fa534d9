"""Rows and their texts: reading, public names, owners, annotation, alignment, rewriting."""

from uedp_bench.contracts.clients import Clients as Clients
from uedp_bench.contracts.clients import Unit as Unit
from uedp_bench.contracts.clients import clients_of as clients_of
from uedp_bench.contracts.clients import users_of as users_of
from uedp_bench.corpus.entity_detection import DetectionParams as DetectionParams
from uedp_bench.corpus.keys import Names as Names
from uedp_bench.corpus.keys import normal_id as normal_id
from uedp_bench.corpus.keys import normal_surface as normal_surface
from uedp_bench.corpus.rewriting import Edit as Edit
from uedp_bench.corpus.rewriting import Piece as Piece
from uedp_bench.corpus.rewriting import Rewriting as Rewriting
from uedp_bench.corpus.spans import Alignment as Alignment
from uedp_bench.corpus.stable_names import named_users as named_users
from uedp_bench.corpus.stable_names import owner_numbers as owner_numbers
from uedp_bench.corpus.stable_names import row_ids as row_ids
from uedp_bench.corpus.stable_names import row_numbers as row_numbers
from uedp_bench.corpus.stable_names import user_numbers as user_numbers
from uedp_bench.corpus.table import concatenate as concatenate
from uedp_bench.corpus.table import dense_ids as dense_ids
from uedp_bench.corpus.table import or_alone as or_alone
from uedp_bench.io.files import open_text as open_text
from uedp_bench.tasks.sources.reading.splits import SplitParams as SplitParams
from uedp_bench.tasks.sources.reading.splits import cut_missing_splits as cut_missing_splits
from uedp_bench.text.automatic_annotation import AnnotationParams as AnnotationParams
from uedp_bench.text.automatic_annotation import RecordTag as RecordTag
from uedp_bench.text.automatic_annotation import annotate as annotate
from uedp_bench.text.entities import add_entities as add_entities

__all__ = sorted(name for name in globals() if not name.startswith("_"))
