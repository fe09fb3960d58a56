"""Which kind of progress a search shows.
Must not know the events."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from autotune.report.lines import PlainLines
from autotune.report.live import LiveBlock
from autotune.report.screen import messages
from autotune.search.progress import OnEvent, ignore


def progress(*, quiet: bool, verbose: bool) -> AbstractContextManager[OnEvent]:
    """The listener for one search: nothing, a live block on a terminal, plain lines elsewhere."""
    if quiet:
        return nullcontext(ignore)
    console = messages()
    return LiveBlock(console, verbose=verbose) if console.is_terminal else PlainLines(console, verbose=verbose)
