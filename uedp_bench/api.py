"""Everything that a mechanism, attack, task, source or model of your own imports.

`from uedp_bench.api import TrainingMechanism, Params, Federation, ...` is enough: what else the
package holds may move. Names whose modules load torch are imported when they are first asked for,
so that describing and accounting for a component stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from uedp_bench.accounting.accountants.answers import Accountant, Answer, Asked, Refusal, Rounds
from uedp_bench.accounting.accountants.dominating_pairs import Array, DiscretePair, LossPair, Window
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import (
    Adjacency,
    AnyEvent,
    Event,
    Neighbours,
    Notion,
    PrivacyUnit,
    Promise,
    Protected,
    UnknownEvent,
)
from uedp_bench.accounting.events import (
    ApproximateDP,
    Claim,
    FixedSizeSampled,
    Gaussian,
    LaplaceVector,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    Repeated,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.parallel import Parallel
from uedp_bench.accounting.published_systems import Reading
from uedp_bench.accounting.secure_computation import SecureComputation
from uedp_bench.asking import class_labels, seen_of
from uedp_bench.attack import Attack, Leakage, Planted
from uedp_bench.clients import Clients, clients_of
from uedp_bench.component import Component, MayBePath, Params
from uedp_bench.corpus._columns import Facts
from uedp_bench.corpus.alignment import Alignment
from uedp_bench.corpus.rewriting import Edit, Piece, Rewriting
from uedp_bench.corpus.row_index import BoolArray, FloatArray, Index, IntArray
from uedp_bench.corpus.spans import Layer, Mention, Spans, normalise_surface
from uedp_bench.corpus.table import CONTENT, SPLITS, Corpus, concatenate, dense_ids, or_alone
from uedp_bench.errors import (
    CapabilityError,
    InputError,
    PluginError,
    PrivacyError,
    UedpBenchError,
)
from uedp_bench.files.text_files import open_text
from uedp_bench.learner import (
    Batch,
    Learner,
    Losses,
    Role,
    Rows,
    Schedule,
    SplitLearner,
    on_device,
    row_seeds,
    take_over,
)
from uedp_bench.mechanism import (
    CorpusStats,
    Events,
    Mechanism,
    PublicUnits,
    PublishingMechanism,
    RepresentationChannel,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)
from uedp_bench.mechanisms.private_training.users import users_of
from uedp_bench.model import (
    EmbedsTokens,
    FeatureArray,
    FeatureModule,
    HasOutputLayer,
    LanguageModel,
    NextTokenModule,
    PairVocabulary,
    ReadsTokenVectors,
    TextEncoder,
    TextModel,
    TokenEncoder,
    TranslationModel,
    TranslationModule,
    Vocabulary,
    WordRows,
)
from uedp_bench.models.vocabularies.word_model import WordModel, WordParams, WordText
from uedp_bench.models.vocabularies.words import WordVocabulary
from uedp_bench.pool_completer import PoolCompleter
from uedp_bench.randomness.streams import Name, Stream
from uedp_bench.registry import attacks, events, mechanisms, models, sources, tasks
from uedp_bench.release import (
    Channel,
    Classifier,
    Completer,
    Deidentified,
    Encoder,
    EntityDetector,
    Generator,
    LabelOnly,
    PairScorer,
    Published,
    PublishedOnly,
    Question,
    Release,
    RowScorer,
    Scorer,
    SplitRelease,
    Tagger,
    Tokenised,
    TokenScores,
    TrainedRelease,
    Translator,
    Updates,
    WordChannel,
    capability,
)
from uedp_bench.results import Estimate, LowerBound
from uedp_bench.run import Progress, Retrain, Run, Speed
from uedp_bench.served_release import (
    Compilable,
    OpenedMessages,
    PlainNetwork,
    PublicInputs,
    ServedRelease,
)
from uedp_bench.source import Source, SourceParams, SourceRef
from uedp_bench.statistics.intervals import fraction_estimate, mean_estimate, ratio_estimate
from uedp_bench.statistics.roc import Rate, Scores, auc, auc_estimate, tpr_at_fpr
from uedp_bench.statistics.span_scores import (
    SpanCounts,
    SpanScore,
    span_counts,
    span_scores,
    spans_of_labels,
)
from uedp_bench.task import Task, Utility
from uedp_bench.tasks.sources.reading.splits import SplitParams, cut_missing_splits
from uedp_bench.text.annotation.automatic import AnnotationParams, annotate
from uedp_bench.text.annotation.keys import RecordTag
from uedp_bench.text.entities import DetectionParams, add_entities
from uedp_bench.transcript import Message, Messages, Sent, Size, Transcript

if TYPE_CHECKING:
    from uedp_bench.models.module_set import ModuleSet, load_modules, modules_of, save_modules
    from uedp_bench.secure.compile import SecureConfig, SecureNetwork, compile_network
    from uedp_bench.secure.modules import ArgMax, Branches
    from uedp_bench.training.adaptive_bound import AdaptiveBound
    from uedp_bench.training.bounds import (
        Bound,
        Count,
        FlatBound,
        Limits,
        NetworkLayer,
        PerLayerBound,
        Seen,
        TwoLevelBound,
        Unbounded,
    )
    from uedp_bench.training.correlated_noise import BandedNoise
    from uedp_bench.training.federated import Federation, Trained, train_federated
    from uedp_bench.training.local import LocalTraining, LocalWork, UnitTrainer
    from uedp_bench.training.noise import GaussianNoise, IndependentGaussian, Noise
    from uedp_bench.training.participation import CyclicCohorts, Guarded, Participation
    from uedp_bench.training.plain import train_plain
    from uedp_bench.training.sampling import (
        FixedSizeSampler,
        PoissonSampler,
        Sampler,
        TakingPart,
    )
    from uedp_bench.training.server import (
        AdagradServer,
        AdamServer,
        ServerStep,
        SgdServer,
        YogiServer,
    )

__all__ = [
    "CONTENT",
    "SPLITS",
    "Accountant",
    "AdagradServer",
    "AdamServer",
    "AdaptiveBound",
    "Adjacency",
    "Alignment",
    "AnnotationParams",
    "Answer",
    "AnyEvent",
    "ApproximateDP",
    "ArgMax",
    "Array",
    "Asked",
    "Attack",
    "BandedFactorization",
    "BandedNoise",
    "Batch",
    "BoolArray",
    "Bound",
    "Branches",
    "CapabilityError",
    "Channel",
    "Claim",
    "Classifier",
    "Clients",
    "Compilable",
    "Completer",
    "Component",
    "Corpus",
    "CorpusStats",
    "Count",
    "CyclicCohorts",
    "Deidentified",
    "DetectionParams",
    "DiscretePair",
    "Edit",
    "EmbedsTokens",
    "Encoder",
    "EntityDetector",
    "Estimate",
    "Event",
    "Events",
    "Facts",
    "FeatureArray",
    "FeatureModule",
    "Federation",
    "FixedSizeSampled",
    "FixedSizeSampler",
    "FlatBound",
    "FloatArray",
    "Gaussian",
    "GaussianNoise",
    "Generator",
    "Guarded",
    "HasOutputLayer",
    "IndependentGaussian",
    "Index",
    "InputError",
    "IntArray",
    "LabelOnly",
    "LanguageModel",
    "LaplaceVector",
    "Layer",
    "Leakage",
    "Learner",
    "Limits",
    "LocalTraining",
    "LocalWork",
    "LossPair",
    "Losses",
    "LowerBound",
    "MayBePath",
    "Mechanism",
    "Mention",
    "Message",
    "Messages",
    "MetricPrivacy",
    "ModuleSet",
    "Name",
    "Neighbours",
    "NetworkLayer",
    "NextTokenModule",
    "Noise",
    "NonPrivate",
    "Notion",
    "OpenedMessages",
    "PairScorer",
    "PairVocabulary",
    "Parallel",
    "Params",
    "Participation",
    "PerLayerBound",
    "Piece",
    "PlainNetwork",
    "Planted",
    "PluginError",
    "PoissonSampled",
    "PoissonSampler",
    "PoolCompleter",
    "PrivacyError",
    "PrivacyEvent",
    "PrivacyUnit",
    "Progress",
    "Promise",
    "Protected",
    "PublicInputs",
    "PublicUnits",
    "Published",
    "PublishedOnly",
    "PublishingMechanism",
    "PureDP",
    "Question",
    "Rate",
    "Reading",
    "ReadsTokenVectors",
    "RecordTag",
    "Refusal",
    "Release",
    "Repeated",
    "RepresentationChannel",
    "RepresentationMechanism",
    "Retrain",
    "Rewriting",
    "Role",
    "Rounds",
    "RowScorer",
    "Rows",
    "Run",
    "Sampler",
    "Schedule",
    "Scorer",
    "Scores",
    "SecureComputation",
    "SecureConfig",
    "SecureNetwork",
    "Seen",
    "Sent",
    "SentenceSampledGaussian",
    "ServedRelease",
    "ServerStep",
    "ServingMechanism",
    "SgdServer",
    "Size",
    "Source",
    "SourceParams",
    "SourceRef",
    "SpanCounts",
    "SpanScore",
    "Spans",
    "Speed",
    "SplitLearner",
    "SplitParams",
    "SplitRelease",
    "Stream",
    "Tagger",
    "TakingPart",
    "Task",
    "TextEncoder",
    "TextModel",
    "TokenEncoder",
    "TokenScores",
    "Tokenised",
    "Trained",
    "TrainedRelease",
    "TrainingMechanism",
    "Transcript",
    "TranslationModel",
    "TranslationModule",
    "Translator",
    "TwoLevelBound",
    "TwoLevelUserEntityGaussian",
    "UedpBenchError",
    "Unbounded",
    "UnitTrainer",
    "UnknownEvent",
    "Updates",
    "UserEntityGaussian",
    "Utility",
    "Vocabulary",
    "VocabularyMechanism",
    "Window",
    "WordChannel",
    "WordModel",
    "WordParams",
    "WordRows",
    "WordText",
    "WordVocabulary",
    "YogiServer",
    "add_entities",
    "annotate",
    "attacks",
    "auc",
    "auc_estimate",
    "capability",
    "class_labels",
    "clients_of",
    "compile_network",
    "concatenate",
    "cut_missing_splits",
    "dense_ids",
    "events",
    "fraction_estimate",
    "load_modules",
    "mean_estimate",
    "mechanisms",
    "models",
    "modules_of",
    "normalise_surface",
    "on_device",
    "open_text",
    "or_alone",
    "ratio_estimate",
    "row_seeds",
    "save_modules",
    "seen_of",
    "sources",
    "span_counts",
    "span_scores",
    "spans_of_labels",
    "take_over",
    "tasks",
    "tpr_at_fpr",
    "train_federated",
    "train_plain",
    "users_of",
]

_WITH_TORCH: dict[str, tuple[str, ...]] = {
    "uedp_bench.models.module_set": ("ModuleSet", "load_modules", "modules_of", "save_modules"),
    "uedp_bench.secure.compile": ("SecureConfig", "SecureNetwork", "compile_network"),
    "uedp_bench.secure.modules": ("ArgMax", "Branches"),
    "uedp_bench.training.adaptive_bound": ("AdaptiveBound",),
    "uedp_bench.training.bounds": (
        "Bound",
        "Count",
        "FlatBound",
        "NetworkLayer",
        "Limits",
        "PerLayerBound",
        "Seen",
        "TwoLevelBound",
        "Unbounded",
    ),
    "uedp_bench.training.correlated_noise": ("BandedNoise",),
    "uedp_bench.training.federated": ("Federation", "Trained", "train_federated"),
    "uedp_bench.training.local": ("LocalTraining", "LocalWork", "UnitTrainer"),
    "uedp_bench.training.noise": ("GaussianNoise", "IndependentGaussian", "Noise"),
    "uedp_bench.training.participation": ("CyclicCohorts", "Guarded", "Participation"),
    "uedp_bench.training.plain": ("train_plain",),
    "uedp_bench.training.sampling": (
        "FixedSizeSampler",
        "PoissonSampler",
        "Sampler",
        "TakingPart",
    ),
    "uedp_bench.training.server": (
        "AdagradServer",
        "AdamServer",
        "ServerStep",
        "SgdServer",
        "YogiServer",
    ),
}
"""Names that are imported on first use, by the module that has them."""


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
