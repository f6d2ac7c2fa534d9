"""Estimates with intervals, ROC curves, and scores of spans."""

from uedp_bench.statistics.intervals import Rate as Rate
from uedp_bench.statistics.intervals import Scores as Scores
from uedp_bench.statistics.intervals import auc as auc
from uedp_bench.statistics.intervals import auc_estimate as auc_estimate
from uedp_bench.statistics.intervals import fraction_estimate as fraction_estimate
from uedp_bench.statistics.intervals import mean_estimate as mean_estimate
from uedp_bench.statistics.intervals import range_estimate as range_estimate
from uedp_bench.statistics.intervals import ratio_estimate as ratio_estimate
from uedp_bench.statistics.intervals import sum_of_ratios_estimate as sum_of_ratios_estimate
from uedp_bench.statistics.intervals import tpr_at_fpr as tpr_at_fpr
from uedp_bench.statistics.span_scores import SpanCounts as SpanCounts
from uedp_bench.statistics.span_scores import SpanScore as SpanScore
from uedp_bench.statistics.span_scores import span_counts as span_counts
from uedp_bench.statistics.span_scores import span_scores as span_scores
from uedp_bench.statistics.span_scores import spans_of_labels as spans_of_labels

__all__ = sorted(name for name in globals() if not name.startswith("_"))
