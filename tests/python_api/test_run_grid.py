"""A grid in parts: each run is in one of them, and neighbours stay together."""

from __future__ import annotations

import pytest

from uedp_bench.errors import InputError
from uedp_bench.python_api.run_grid import Share


@pytest.mark.parametrize("runs", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("parts", [1, 3, 4, 20])
def test_each_run_is_in_one_part_in_order(runs, parts):
    every = list(range(runs))
    selections = [Share(number, parts).select(every) for number in range(1, parts + 1)]
    assert [run for part in selections for run in part] == every
    sizes = [len(part) for part in selections]
    assert max(sizes) - min(sizes) <= 1


def test_a_part_is_named_as_a_job_array_numbers_its_tasks():
    assert Share.parse("2/8") == Share(2, 8)
    assert Share.parse("8/8") == Share(8, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9/8", "--share 9/8.* 8"),
        ("0/8", "--array=1-N"),
        ("0/0", "--share 0/0.* 0"),
        ("3", "--share '.*2/8"),
        ("-1/3", "--share '.*2/8"),
        ("/4", "--share '.*2/8"),
        ("1/4/2", "--share '.*2/8"),
        ("٢/٨", "--share '.*2/8"),
        ("1/9999999", "--share '.*2/8"),
    ],
)
def test_what_names_no_part_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        Share.parse(text)
