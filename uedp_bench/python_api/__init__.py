"""Functions for Python and notebooks: run, read, account, load, attack.

`import uedp_bench as ub` has all of it (`ub.run`, `ub.load_results`, ...).
"""
