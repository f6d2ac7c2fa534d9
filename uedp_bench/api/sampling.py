"""Sampling: who takes part in which round, and what follows for one unit."""

from uedp_bench.training.sampling import CyclicCohorts as CyclicCohorts
from uedp_bench.training.sampling import FixedSizeSampler as FixedSizeSampler
from uedp_bench.training.sampling import Guarded as Guarded
from uedp_bench.training.sampling import Participation as Participation
from uedp_bench.training.sampling import PoissonSampler as PoissonSampler
from uedp_bench.training.sampling import Sampler as Sampler
from uedp_bench.training.sampling import TakingPart as TakingPart

__all__ = sorted(name for name in globals() if not name.startswith("_"))
