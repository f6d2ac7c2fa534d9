"""Privacy events, their accountants' answers, and the registry of events."""

from uedp_bench.accounting.accountants.basic_composition import promises as promises
from uedp_bench.accounting.accountants.dominating_pairs import Array as Array
from uedp_bench.accounting.accountants.dominating_pairs import DiscretePair as DiscretePair
from uedp_bench.accounting.accountants.dominating_pairs import LossPair as LossPair
from uedp_bench.accounting.accountants.dominating_pairs import Window as Window
from uedp_bench.accounting.accountants.joint_accountants import (
    joint_accountants as joint_accountants,
)
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs as loss_pairs
from uedp_bench.accounting.accountants.renyi import renyi_divergences as renyi_divergences
from uedp_bench.accounting.banded_factorization import BandedFactorization as BandedFactorization
from uedp_bench.accounting.declarations import DeclaredClaim as DeclaredClaim
from uedp_bench.accounting.event_contract import AccountantTable as AccountantTable
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
from uedp_bench.accounting.guarantee import Accountant as Accountant
from uedp_bench.accounting.guarantee import Answer as Answer
from uedp_bench.accounting.guarantee import Asked as Asked
from uedp_bench.accounting.guarantee import Refusal as Refusal
from uedp_bench.accounting.guarantee import Rounds as Rounds
from uedp_bench.accounting.protocol_events import NoisyHistogram as NoisyHistogram
from uedp_bench.accounting.protocol_events import Parallel as Parallel
from uedp_bench.accounting.protocol_events import SecureComputation as SecureComputation
from uedp_bench.accounting.published_systems import Reading as Reading
from uedp_bench.components.registry import events as events

__all__ = sorted(name for name in globals() if not name.startswith("_"))
