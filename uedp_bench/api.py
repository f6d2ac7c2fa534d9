"""Everything that a mechanism, attack, task, source or model of your own imports.

`from uedp_bench.api import TrainingMechanism, Params, Federation, ...` is enough: what else the
package holds may move. Names whose modules load torch are imported when they are first asked for,
so that describing and accounting for a component stay quick.

A name is added by one line: `from uedp_bench.MODULE import Name as Name`. Everything that does not
begin with an underscore is public.
"""

import importlib as _importlib
import typing as _typing

from uedp_bench.accounting.accountants.answers import Accountant as Accountant
from uedp_bench.accounting.accountants.answers import Answer as Answer
from uedp_bench.accounting.accountants.answers import Asked as Asked
from uedp_bench.accounting.accountants.answers import Refusal as Refusal
from uedp_bench.accounting.accountants.answers import Rounds as Rounds
from uedp_bench.accounting.accountants.dominating_pairs import Array as Array
from uedp_bench.accounting.accountants.dominating_pairs import DiscretePair as DiscretePair
from uedp_bench.accounting.accountants.dominating_pairs import LossPair as LossPair
from uedp_bench.accounting.accountants.dominating_pairs import Window as Window
from uedp_bench.accounting.banded_factorization import BandedFactorization as BandedFactorization
from uedp_bench.accounting.declared_claim import DeclaredClaim as DeclaredClaim
from uedp_bench.accounting.event_contract import Adjacency as Adjacency
from uedp_bench.accounting.event_contract import AnyEvent as AnyEvent
from uedp_bench.accounting.event_contract import Event as Event
from uedp_bench.accounting.event_contract import Neighbours as Neighbours
from uedp_bench.accounting.event_contract import Notion as Notion
from uedp_bench.accounting.event_contract import PrivacyUnit as PrivacyUnit
from uedp_bench.accounting.event_contract import Promise as Promise
from uedp_bench.accounting.event_contract import Protected as Protected
from uedp_bench.accounting.event_contract import UnknownEvent as UnknownEvent
from uedp_bench.accounting.events import ApproximateDP as ApproximateDP
from uedp_bench.accounting.events import Claim as Claim
from uedp_bench.accounting.events import FixedSizeSampled as FixedSizeSampled
from uedp_bench.accounting.events import Gaussian as Gaussian
from uedp_bench.accounting.events import LaplaceVector as LaplaceVector
from uedp_bench.accounting.events import MetricPrivacy as MetricPrivacy
from uedp_bench.accounting.events import NonPrivate as NonPrivate
from uedp_bench.accounting.events import PoissonSampled as PoissonSampled
from uedp_bench.accounting.events import PrivacyEvent as PrivacyEvent
from uedp_bench.accounting.events import PureDP as PureDP
from uedp_bench.accounting.events import Repeated as Repeated
from uedp_bench.accounting.events import SentenceSampledGaussian as SentenceSampledGaussian
from uedp_bench.accounting.events import TwoLevelUserEntityGaussian as TwoLevelUserEntityGaussian
from uedp_bench.accounting.events import UserEntityGaussian as UserEntityGaussian
from uedp_bench.accounting.noisy_histogram import NoisyHistogram as NoisyHistogram
from uedp_bench.accounting.parallel import Parallel as Parallel
from uedp_bench.accounting.published_systems import Reading as Reading
from uedp_bench.accounting.secure_computation import SecureComputation as SecureComputation
from uedp_bench.components.component import Component as Component
from uedp_bench.components.component import MayBePath as MayBePath
from uedp_bench.components.component import Params as Params
from uedp_bench.components.metric import Metric as Metric
from uedp_bench.components.registry import attacks as attacks
from uedp_bench.components.registry import events as events
from uedp_bench.components.registry import mechanisms as mechanisms
from uedp_bench.components.registry import models as models
from uedp_bench.components.registry import sources as sources
from uedp_bench.components.registry import tasks as tasks
from uedp_bench.components.requirements import Requirement as Requirement
from uedp_bench.contracts.asking import class_labels as class_labels
from uedp_bench.contracts.asking import seen_of as seen_of
from uedp_bench.contracts.clients import Clients as Clients
from uedp_bench.contracts.clients import clients_of as clients_of
from uedp_bench.contracts.leakage import Attack as Attack
from uedp_bench.contracts.leakage import Leakage as Leakage
from uedp_bench.contracts.leakage import Planted as Planted
from uedp_bench.contracts.learner import Batch as Batch
from uedp_bench.contracts.learner import Learner as Learner
from uedp_bench.contracts.learner import Losses as Losses
from uedp_bench.contracts.learner import Role as Role
from uedp_bench.contracts.learner import Rows as Rows
from uedp_bench.contracts.learner import Schedule as Schedule
from uedp_bench.contracts.learner import SplitLearner as SplitLearner
from uedp_bench.contracts.learner import take_over as take_over
from uedp_bench.contracts.mask_filler import MaskFiller as MaskFiller
from uedp_bench.contracts.masked_model import MaskedLanguageModel as MaskedLanguageModel
from uedp_bench.contracts.masked_model import MaskedModule as MaskedModule
from uedp_bench.contracts.masked_model import MaskedVocabulary as MaskedVocabulary
from uedp_bench.contracts.mechanism import CorpusStats as CorpusStats
from uedp_bench.contracts.mechanism import Elsewhere as Elsewhere
from uedp_bench.contracts.mechanism import Events as Events
from uedp_bench.contracts.mechanism import Mechanism as Mechanism
from uedp_bench.contracts.mechanism import PublicUnits as PublicUnits
from uedp_bench.contracts.mechanism import PublishingMechanism as PublishingMechanism
from uedp_bench.contracts.mechanism import RepresentationChannel as RepresentationChannel
from uedp_bench.contracts.mechanism import RepresentationMechanism as RepresentationMechanism
from uedp_bench.contracts.mechanism import ServingMechanism as ServingMechanism
from uedp_bench.contracts.mechanism import TrainingMechanism as TrainingMechanism
from uedp_bench.contracts.mechanism import VocabularyMechanism as VocabularyMechanism
from uedp_bench.contracts.model import BringsHead as BringsHead
from uedp_bench.contracts.model import EmbedsTokens as EmbedsTokens
from uedp_bench.contracts.model import FeatureModule as FeatureModule
from uedp_bench.contracts.model import HasOutputLayer as HasOutputLayer
from uedp_bench.contracts.model import LanguageModel as LanguageModel
from uedp_bench.contracts.model import NextTokenModule as NextTokenModule
from uedp_bench.contracts.model import PairVocabulary as PairVocabulary
from uedp_bench.contracts.model import ReadsTokenVectors as ReadsTokenVectors
from uedp_bench.contracts.model import StopsAtEnds as StopsAtEnds
from uedp_bench.contracts.model import TextEncoder as TextEncoder
from uedp_bench.contracts.model import TextModel as TextModel
from uedp_bench.contracts.model import TokenEncoder as TokenEncoder
from uedp_bench.contracts.model import TranslationModel as TranslationModel
from uedp_bench.contracts.model import TranslationModule as TranslationModule
from uedp_bench.contracts.model import Vocabulary as Vocabulary
from uedp_bench.contracts.model import WordRows as WordRows
from uedp_bench.contracts.pool_completer import PoolCompleter as PoolCompleter
from uedp_bench.contracts.release import Channel as Channel
from uedp_bench.contracts.release import Classifier as Classifier
from uedp_bench.contracts.release import Completer as Completer
from uedp_bench.contracts.release import Deidentified as Deidentified
from uedp_bench.contracts.release import Encoder as Encoder
from uedp_bench.contracts.release import EntityDetector as EntityDetector
from uedp_bench.contracts.release import Generator as Generator
from uedp_bench.contracts.release import LabelOnly as LabelOnly
from uedp_bench.contracts.release import PairScorer as PairScorer
from uedp_bench.contracts.release import Predictor as Predictor
from uedp_bench.contracts.release import Published as Published
from uedp_bench.contracts.release import PublishedOnly as PublishedOnly
from uedp_bench.contracts.release import Question as Question
from uedp_bench.contracts.release import Release as Release
from uedp_bench.contracts.release import RowScorer as RowScorer
from uedp_bench.contracts.release import Scorer as Scorer
from uedp_bench.contracts.release import SplitRelease as SplitRelease
from uedp_bench.contracts.release import Tagger as Tagger
from uedp_bench.contracts.release import Tokenised as Tokenised
from uedp_bench.contracts.release import TokenScores as TokenScores
from uedp_bench.contracts.release import TrainedRelease as TrainedRelease
from uedp_bench.contracts.release import Translator as Translator
from uedp_bench.contracts.release import Updates as Updates
from uedp_bench.contracts.release import capability as capability
from uedp_bench.contracts.results import Estimate as Estimate
from uedp_bench.contracts.results import LowerBound as LowerBound
from uedp_bench.contracts.results import Sample as Sample
from uedp_bench.contracts.run_context import Progress as Progress
from uedp_bench.contracts.run_context import Retrain as Retrain
from uedp_bench.contracts.run_context import Run as Run
from uedp_bench.contracts.run_context import Speed as Speed
from uedp_bench.contracts.served_release import Compilable as Compilable
from uedp_bench.contracts.served_release import OpenedMessages as OpenedMessages
from uedp_bench.contracts.served_release import PlainNetwork as PlainNetwork
from uedp_bench.contracts.served_release import PublicInputs as PublicInputs
from uedp_bench.contracts.served_release import ServedRelease as ServedRelease
from uedp_bench.contracts.source import Source as Source
from uedp_bench.contracts.source import SourceRef as SourceRef
from uedp_bench.contracts.source_rows import SourceParams as SourceParams
from uedp_bench.contracts.task import Task as Task
from uedp_bench.contracts.task import Utility as Utility
from uedp_bench.contracts.transcript import Message as Message
from uedp_bench.contracts.transcript import Messages as Messages
from uedp_bench.contracts.transcript import Sent as Sent
from uedp_bench.contracts.transcript import Size as Size
from uedp_bench.contracts.transcript import Transcript as Transcript
from uedp_bench.contracts.word_counts import WordCounts as WordCounts
from uedp_bench.corpus._columns import Facts as Facts
from uedp_bench.corpus.alignment import Alignment as Alignment
from uedp_bench.corpus.entity_detection import DetectionParams as DetectionParams
from uedp_bench.corpus.names import Names as Names
from uedp_bench.corpus.normal_form import normal_id as normal_id
from uedp_bench.corpus.normal_form import normal_surface as normal_surface
from uedp_bench.corpus.public_numbers import named_users as named_users
from uedp_bench.corpus.public_numbers import owner_numbers as owner_numbers
from uedp_bench.corpus.public_numbers import row_numbers as row_numbers
from uedp_bench.corpus.public_numbers import user_numbers as user_numbers
from uedp_bench.corpus.rewriting import Edit as Edit
from uedp_bench.corpus.rewriting import Piece as Piece
from uedp_bench.corpus.rewriting import Rewriting as Rewriting
from uedp_bench.corpus.row_ids import row_ids as row_ids
from uedp_bench.corpus.row_index import BoolArray as BoolArray
from uedp_bench.corpus.row_index import FeatureArray as FeatureArray
from uedp_bench.corpus.row_index import FloatArray as FloatArray
from uedp_bench.corpus.row_index import Index as Index
from uedp_bench.corpus.row_index import IntArray as IntArray
from uedp_bench.corpus.spans import Layer as Layer
from uedp_bench.corpus.spans import Mention as Mention
from uedp_bench.corpus.spans import Spans as Spans
from uedp_bench.corpus.table import CONTENT as CONTENT
from uedp_bench.corpus.table import SPLITS as SPLITS
from uedp_bench.corpus.table import Corpus as Corpus
from uedp_bench.corpus.table import concatenate as concatenate
from uedp_bench.corpus.table import dense_ids as dense_ids
from uedp_bench.corpus.table import or_alone as or_alone
from uedp_bench.errors import CapabilityError as CapabilityError
from uedp_bench.errors import InputError as InputError
from uedp_bench.errors import PluginError as PluginError
from uedp_bench.errors import PrivacyError as PrivacyError
from uedp_bench.errors import UedpBenchError as UedpBenchError
from uedp_bench.io.text_files import open_text as open_text
from uedp_bench.mechanisms.private_training.users import users_of as users_of
from uedp_bench.models.vocabularies.word_model import WordModel as WordModel
from uedp_bench.models.vocabularies.word_model import WordParams as WordParams
from uedp_bench.models.vocabularies.word_model import WordText as WordText
from uedp_bench.models.vocabularies.words import WordVocabulary as WordVocabulary
from uedp_bench.randomness.streams import Name as Name
from uedp_bench.randomness.streams import Stream as Stream
from uedp_bench.statistics.intervals import fraction_estimate as fraction_estimate
from uedp_bench.statistics.intervals import mean_estimate as mean_estimate
from uedp_bench.statistics.intervals import ratio_estimate as ratio_estimate
from uedp_bench.statistics.roc import Rate as Rate
from uedp_bench.statistics.roc import Scores as Scores
from uedp_bench.statistics.roc import auc as auc
from uedp_bench.statistics.roc import auc_estimate as auc_estimate
from uedp_bench.statistics.roc import tpr_at_fpr as tpr_at_fpr
from uedp_bench.statistics.span_scores import SpanCounts as SpanCounts
from uedp_bench.statistics.span_scores import SpanScore as SpanScore
from uedp_bench.statistics.span_scores import span_counts as span_counts
from uedp_bench.statistics.span_scores import span_scores as span_scores
from uedp_bench.statistics.span_scores import spans_of_labels as spans_of_labels
from uedp_bench.tasks.sources.reading.splits import SplitParams as SplitParams
from uedp_bench.tasks.sources.reading.splits import cut_missing_splits as cut_missing_splits
from uedp_bench.tasks.tokens.reader import Reader as Reader
from uedp_bench.tasks.tokens.supervised import SupervisedParams as SupervisedParams
from uedp_bench.tasks.tokens.supervised import SupervisedTask as SupervisedTask
from uedp_bench.text.annotation.automatic import AnnotationParams as AnnotationParams
from uedp_bench.text.annotation.automatic import annotate as annotate
from uedp_bench.text.annotation.keys import RecordTag as RecordTag
from uedp_bench.text.entities import add_entities as add_entities
from uedp_bench.text.word_occurrences import WordChannel as WordChannel

if _typing.TYPE_CHECKING:
    from uedp_bench.mechanisms.secure_inference.engine.compile import SecureConfig as SecureConfig
    from uedp_bench.mechanisms.secure_inference.engine.compile import SecureNetwork as SecureNetwork
    from uedp_bench.mechanisms.secure_inference.engine.compile import (
        compile_network as compile_network,
    )
    from uedp_bench.models.module_set import ModuleSet as ModuleSet
    from uedp_bench.models.module_set import load_modules as load_modules
    from uedp_bench.models.module_set import modules_of as modules_of
    from uedp_bench.models.module_set import save_modules as save_modules
    from uedp_bench.models.networks.modules import ArgMax as ArgMax
    from uedp_bench.models.networks.modules import Branches as Branches
    from uedp_bench.training.adaptive_bound import AdaptiveBound as AdaptiveBound
    from uedp_bench.training.bounds import Bound as Bound
    from uedp_bench.training.bounds import Count as Count
    from uedp_bench.training.bounds import FlatBound as FlatBound
    from uedp_bench.training.bounds import Limits as Limits
    from uedp_bench.training.bounds import NetworkLayer as NetworkLayer
    from uedp_bench.training.bounds import PerLayerBound as PerLayerBound
    from uedp_bench.training.bounds import Seen as Seen
    from uedp_bench.training.bounds import TwoLevelBound as TwoLevelBound
    from uedp_bench.training.bounds import Unbounded as Unbounded
    from uedp_bench.training.correlated_noise import BandedNoise as BandedNoise
    from uedp_bench.training.federated import train_federated as train_federated
    from uedp_bench.training.federation import Federation as Federation
    from uedp_bench.training.federation import Trained as Trained
    from uedp_bench.training.lamb import LambServer as LambServer
    from uedp_bench.training.local import LocalTraining as LocalTraining
    from uedp_bench.training.local import LocalWork as LocalWork
    from uedp_bench.training.local import UnitTrainer as UnitTrainer
    from uedp_bench.training.noise import GaussianNoise as GaussianNoise
    from uedp_bench.training.noise import IndependentGaussian as IndependentGaussian
    from uedp_bench.training.noise import Noise as Noise
    from uedp_bench.training.participation import CyclicCohorts as CyclicCohorts
    from uedp_bench.training.participation import Guarded as Guarded
    from uedp_bench.training.participation import Participation as Participation
    from uedp_bench.training.plain import train_plain as train_plain
    from uedp_bench.training.sampling import FixedSizeSampler as FixedSizeSampler
    from uedp_bench.training.sampling import PoissonSampler as PoissonSampler
    from uedp_bench.training.sampling import Sampler as Sampler
    from uedp_bench.training.sampling import TakingPart as TakingPart
    from uedp_bench.training.server import AdagradServer as AdagradServer
    from uedp_bench.training.server import AdamServer as AdamServer
    from uedp_bench.training.server import LayeredStep as LayeredStep
    from uedp_bench.training.server import ServerStep as ServerStep
    from uedp_bench.training.server import SgdServer as SgdServer
    from uedp_bench.training.server import YogiServer as YogiServer

_WITH_TORCH: dict[str, tuple[str, ...]] = {
    "uedp_bench.models.module_set": ("ModuleSet", "load_modules", "modules_of", "save_modules"),
    "uedp_bench.mechanisms.secure_inference.engine.compile": (
        "SecureConfig",
        "SecureNetwork",
        "compile_network",
    ),
    "uedp_bench.models.networks.modules": ("ArgMax", "Branches"),
    "uedp_bench.training.adaptive_bound": ("AdaptiveBound",),
    "uedp_bench.training.bounds": (
        "Bound",
        "Count",
        "FlatBound",
        "Limits",
        "NetworkLayer",
        "PerLayerBound",
        "Seen",
        "TwoLevelBound",
        "Unbounded",
    ),
    "uedp_bench.training.correlated_noise": ("BandedNoise",),
    "uedp_bench.training.federated": ("train_federated",),
    "uedp_bench.training.federation": ("Federation", "Trained"),
    "uedp_bench.training.local": ("LocalTraining", "LocalWork", "UnitTrainer"),
    "uedp_bench.training.noise": ("GaussianNoise", "IndependentGaussian", "Noise"),
    "uedp_bench.training.participation": ("CyclicCohorts", "Guarded", "Participation"),
    "uedp_bench.training.plain": ("train_plain",),
    "uedp_bench.training.sampling": ("FixedSizeSampler", "PoissonSampler", "Sampler", "TakingPart"),
    "uedp_bench.training.lamb": ("LambServer",),
    "uedp_bench.training.server": (
        "AdagradServer",
        "AdamServer",
        "LayeredStep",
        "ServerStep",
        "SgdServer",
        "YogiServer",
    ),
}
"""Names that are imported on first use, by the module that has them."""

__all__ = sorted(
    [name for name in globals() if not name.startswith("_")]
    + [name for names in _WITH_TORCH.values() for name in names]
)


def __getattr__(name: str) -> _typing.Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(_importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
