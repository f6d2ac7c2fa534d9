"""SIGTERM while a command is connected to a cluster: it leaves in order, and is ended by it.

Ray answers the signal with `sys.exit(15)`. A batch system or a container that ends a command should
see that the signal ended it, as on one machine, and find no task of it left on the cluster.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Ending:
    """What the signal does within `ends_on_sigterm`.

    Attributes:
        came: True once it was there.
    """

    def __init__(self) -> None:
        self.came = False
        self._in_charge = threading.current_thread() is threading.main_thread()
        self._before = signal.getsignal(signal.SIGTERM) if self._in_charge else None

    def heed(self) -> None:
        """Takes the signal, whoever took it meanwhile; one that was ignored still is.

        Signals reach the main thread only: elsewhere nothing changes.
        """
        if self._in_charge:
            ignored = self._before is signal.SIG_IGN
            signal.signal(signal.SIGTERM, signal.SIG_IGN if ignored else self._end)

    def give_back(self) -> None:
        """Has the signal do what it did before, and do it if it came."""
        if self._in_charge and self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if self.came:
            signal.raise_signal(signal.SIGTERM)

    def _end(self, number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and closing takes a while
        self.came = True
        raise KeyboardInterrupt  # everything that is open closes on its way


@contextmanager
def ends_on_sigterm() -> Iterator[Ending]:
    """Closes all that the block opened when the signal comes, and then does what it did before."""
    ending = Ending()
    try:
        ending.heed()
        yield ending
    except SystemExit as error:  # of Ray, while it connects
        if error.code != signal.SIGTERM:
            raise
        ending.came = True
        raise KeyboardInterrupt from None
    finally:
        ending.give_back()
