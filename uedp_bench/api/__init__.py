"""Names that every author of a component imports: contracts, rows, errors, estimates, registries.

Modules beside this one hold what only some components need:

| module | question that it answers |
|---|---|
| `uedp_bench.api.events` | what happened to private data, and what is it worth? |
| `uedp_bench.api.capabilities` | what can a release be asked? |
| `uedp_bench.api.networks` | how does a network read rows, and what does it learn from them? |
| `uedp_bench.api.text` | how are rows read, named, owned, annotated and rewritten? |
| `uedp_bench.api.statistics` | how sure is a number? |
| `uedp_bench.api.sampling` | who takes part in which round? |
| `uedp_bench.api.training` | how are weights moved, bounded and noised? |

All but `training`, which loads torch, are quick to import. What else the package holds may move.
A name is added by one line, `from uedp_bench.MODULE import Name as Name`, in one of these modules.
"""

import importlib as _importlib
import pkgutil as _pkgutil
import typing as _typing

from uedp_bench.components.component import Component as Component
from uedp_bench.components.component import MayBePath as MayBePath
from uedp_bench.components.component import Params as Params
from uedp_bench.components.component import Requirement as Requirement
from uedp_bench.components.component import equals as equals
from uedp_bench.components.metric import Metric as Metric
from uedp_bench.components.registry import attacks as attacks
from uedp_bench.components.registry import mechanisms as mechanisms
from uedp_bench.components.registry import models as models
from uedp_bench.components.registry import sources as sources
from uedp_bench.components.registry import tasks as tasks
from uedp_bench.contracts.leakage import Attack as Attack
from uedp_bench.contracts.leakage import Leakage as Leakage
from uedp_bench.contracts.leakage import Planted as Planted
from uedp_bench.contracts.leakage import StoredLeakage as StoredLeakage
from uedp_bench.contracts.learner import TrainedRelease as TrainedRelease
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
from uedp_bench.contracts.release import PublishedOnly as PublishedOnly
from uedp_bench.contracts.release import Release as Release
from uedp_bench.contracts.results import Estimate as Estimate
from uedp_bench.contracts.results import LowerBound as LowerBound
from uedp_bench.contracts.results import Sample as Sample
from uedp_bench.contracts.run_context import Progress as Progress
from uedp_bench.contracts.run_context import Retrain as Retrain
from uedp_bench.contracts.run_context import Run as Run
from uedp_bench.contracts.run_context import Speed as Speed
from uedp_bench.contracts.source import CorpusStats as CorpusStats
from uedp_bench.contracts.source import Source as Source
from uedp_bench.contracts.source import SourceParams as SourceParams
from uedp_bench.contracts.source import SourceRef as SourceRef
from uedp_bench.contracts.task import Task as Task
from uedp_bench.contracts.task import Utility as Utility
from uedp_bench.corpus._columns import Facts as Facts
from uedp_bench.corpus.keys import BoolArray as BoolArray
from uedp_bench.corpus.keys import FeatureArray as FeatureArray
from uedp_bench.corpus.keys import FloatArray as FloatArray
from uedp_bench.corpus.keys import Index as Index
from uedp_bench.corpus.keys import IntArray as IntArray
from uedp_bench.corpus.spans import Layer as Layer
from uedp_bench.corpus.spans import Mention as Mention
from uedp_bench.corpus.spans import Spans as Spans
from uedp_bench.corpus.table import CONTENT as CONTENT
from uedp_bench.corpus.table import SPLITS as SPLITS
from uedp_bench.corpus.table import Corpus as Corpus
from uedp_bench.errors import CapabilityError as CapabilityError
from uedp_bench.errors import InputError as InputError
from uedp_bench.errors import PluginError as PluginError
from uedp_bench.errors import PrivacyError as PrivacyError
from uedp_bench.errors import UedpBenchError as UedpBenchError
from uedp_bench.errors import nearest as _nearest
from uedp_bench.randomness import Name as Name
from uedp_bench.randomness import Stream as Stream

__all__ = sorted(name for name in globals() if not name.startswith("_"))

if not _typing.TYPE_CHECKING:  # a type checker refuses names that are not here by itself

    def __getattr__(name: str) -> object:
        """Say where a name is that stands in another module of the API.

        Raises:
            ImportError: if another module has it; `from ... import` hides any other text.
            AttributeError: with the nearest name.
        """
        modules = [module.name for module in _pkgutil.iter_modules(__path__)]
        if name.startswith("_") or name in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        homes = dict.fromkeys(__all__, __name__)
        for module in modules:
            place = f"{__name__}.{module}"
            homes |= dict.fromkeys(_importlib.import_module(place).__all__, place)
        if name in homes:
            place = homes[name]
            raise ImportError(f"{name} is in {place}: from {place} import {name}", name=name)
        near = _nearest(name, homes)
        hint = f"; the nearest name is {near} of {homes[near]}" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
