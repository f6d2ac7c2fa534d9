"""What a person calls from Python or a notebook: run, read, account, load, attack.

`import uedp_bench as ub` has all of it (`ub.run`, `ub.load_results`, ...).
"""
