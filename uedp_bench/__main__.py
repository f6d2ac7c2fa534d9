"""`python -m uedp_bench`, and the console script `uedp-bench`."""

import sys


def main() -> None:
    """Imports the commands and runs one; Ctrl-C during the import ends it without a traceback."""
    try:
        from uedp_bench.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
