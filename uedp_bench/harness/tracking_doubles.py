"""One run of MLflow for each of ours, whoever makes it at the same time or twice.

MLflow lets any number of runs carry the same tag. Two commands that look for a run at once both
find none and both make one; so does a request that is sent again because its answer was lost. All
who look therefore take the smallest id of those that they find: they agree as soon as they see the
same runs. The others are deleted when the one that stays holds everything.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Done = TypeVar("Done")

_MOST = 1000
_TRIES = 5
_PAUSE_SECONDS = 0.5
_IN_THE_WAY = ("BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS")
"""What a server answers if another client wrote the same row first (a parameter, a data set), or
deleted the run meanwhile: it looked, found nothing and failed to add it."""


def despite_others(work: Callable[[], Done]) -> Done:
    """Does work that can be done again, until no other client is in its way.

    Args:
        work: looks what is there, and adds what is not.
    """
    from mlflow.exceptions import MlflowException

    for _ in range(_TRIES - 1):
        try:
            return work()
        except MlflowException as error:
            if error.error_code not in _IN_THE_WAY:
                raise
        # Those who met here must not meet again.
        time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311
    return work()


class Found(NamedTuple):
    """The run that a tag leads to.

    Attributes:
        run: of MLflow.
        doubles: ids of other runs with the same tag.
        made: True if it was not there before.
    """

    run: Any
    doubles: tuple[str, ...] = ()
    made: bool = False


def runs_with(client: Any, experiment: str, tag: str, value: str) -> list[Any]:
    """The runs of an experiment whose tag has a value, by id."""
    found: list[Any] = []
    page = None
    while page is None or page.token:
        page = client.search_runs(
            [experiment], f"tags.`{tag}` = '{value}'",
            max_results=_MOST, page_token=page and page.token,
        )  # fmt: skip
        found += page
    return sorted(found, key=lambda run: str(run.info.run_id))


def found_or_made(
    place: tuple[Any, str], tag: tuple[str, str], *, name: str, began: int, more: Mapping[str, str]
) -> Found:
    """The run with a tag; it is made where there is none.

    Args:
        place: client of MLflow and id of the experiment.
        tag: its name and value.
        name: of a run that is made.
        began: milliseconds since 1970 at which it began.
        more: other tags of a run that is made.
    """
    client, experiment = place
    found = runs_with(client, experiment, *tag)
    made = not found
    if made:
        told = {tag[0]: tag[1], **more}
        run = client.create_run(experiment, start_time=began, run_name=name, tags=told)
        # Somebody else may have made one since, and a server that is asked again makes two.
        found = runs_with(client, experiment, *tag) or [run]
    return Found(found[0], tuple(str(other.info.run_id) for other in found[1:]), made)


def delete_doubles(client: Any, doubles: Sequence[str]) -> None:
    """Deletes runs; somebody else may have deleted them meanwhile."""
    from mlflow.exceptions import MlflowException

    for run_id in doubles:
        try:
            client.delete_run(run_id)
        except MlflowException:
            if not is_deleted(client, run_id):
                raise


def is_deleted(client: Any, run_id: str) -> bool:
    """True if a run was deleted, or is not there any more."""
    from mlflow.exceptions import MlflowException

    try:
        return bool(client.get_run(run_id).info.lifecycle_stage == "deleted")
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return True
        raise
