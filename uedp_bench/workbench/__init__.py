"""What a person calls from Python or a notebook: run, read, account, load, attack.

`import uedp_bench as ub` has all of it (`ub.run`, `ub.load_results`, ...). Components of your own
import from `uedp_bench.api`.
"""

from uedp_bench.workbench.guarantees import Guarantees, account, calibrate
from uedp_bench.workbench.releases import SavedRun, attack, load_corpus, load_release, load_run
from uedp_bench.workbench.results import Results, load_results
from uedp_bench.workbench.running import run

__all__ = [
    "Guarantees",
    "Results",
    "SavedRun",
    "account",
    "attack",
    "calibrate",
    "load_corpus",
    "load_release",
    "load_results",
    "load_run",
    "run",
]
