"""Ctrl-C is not lost. Python drops an exception that is raised while an object is removed (in `__del__`, in a
callback of the garbage collector), a KeyboardInterrupt as well: the command would go on as if nobody had
pressed a key. Here such an interrupt comes once more, a moment later.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import Any

AGAIN_SECONDS = 0.02  # by then, the removal is over; if another has begun, the interrupt comes yet again


def keep_interrupts() -> None:
    """For a program: from now on, an interrupt that Python drops is repeated."""
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        again = threading.Timer(AGAIN_SECONDS, _interrupt)
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def _interrupt() -> None:
    """A real signal, which wakes a thread that sleeps or waits, too."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
