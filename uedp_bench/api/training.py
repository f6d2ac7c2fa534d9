"""Training: rounds of a federation, and its policies. Importing this module loads torch."""

from uedp_bench.models.networks.modules import ArgMax as ArgMax
from uedp_bench.models.networks.modules import Branches as Branches
from uedp_bench.models.networks.modules import ModuleSet as ModuleSet
from uedp_bench.models.networks.modules import load_modules as load_modules
from uedp_bench.models.networks.modules import modules_of as modules_of
from uedp_bench.models.networks.modules import save_modules as save_modules
from uedp_bench.training.bounds import AdaptiveBound as AdaptiveBound
from uedp_bench.training.bounds import Bound as Bound
from uedp_bench.training.bounds import Count as Count
from uedp_bench.training.bounds import FlatBound as FlatBound
from uedp_bench.training.bounds import Limits as Limits
from uedp_bench.training.bounds import NetworkLayer as NetworkLayer
from uedp_bench.training.bounds import PerLayerBound as PerLayerBound
from uedp_bench.training.bounds import Seen as Seen
from uedp_bench.training.bounds import TwoLevelBound as TwoLevelBound
from uedp_bench.training.bounds import Unbounded as Unbounded
from uedp_bench.training.federated import train_federated as train_federated
from uedp_bench.training.federation import Federation as Federation
from uedp_bench.training.federation import Trained as Trained
from uedp_bench.training.local import LocalTraining as LocalTraining
from uedp_bench.training.local import LocalWork as LocalWork
from uedp_bench.training.local import UnitTrainer as UnitTrainer
from uedp_bench.training.noise import BandedNoise as BandedNoise
from uedp_bench.training.noise import GaussianNoise as GaussianNoise
from uedp_bench.training.noise import IndependentGaussian as IndependentGaussian
from uedp_bench.training.noise import Noise as Noise
from uedp_bench.training.plain import train_plain as train_plain
from uedp_bench.training.server import AdagradServer as AdagradServer
from uedp_bench.training.server import AdamServer as AdamServer
from uedp_bench.training.server import LambServer as LambServer
from uedp_bench.training.server import LayeredStep as LayeredStep
from uedp_bench.training.server import ServerStep as ServerStep
from uedp_bench.training.server import SgdServer as SgdServer
from uedp_bench.training.server import YogiServer as YogiServer

__all__ = sorted(name for name in globals() if not name.startswith("_"))
