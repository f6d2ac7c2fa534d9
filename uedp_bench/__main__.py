"""`python -m uedp_bench` is `uedp-bench`."""

from uedp_bench.cli.main import main

if __name__ == "__main__":
    main()
