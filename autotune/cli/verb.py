"""The frame around every verb: its exit code, its errors without a traceback, Ctrl-C.
Must not know what any verb does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from autotune.cli.errors import NothingStored
from autotune.cli.exits import ExitCode
from autotune.errors import AutotuneError

P = ParamSpec("P")


def verb(function: Callable[P, ExitCode]) -> Callable[P, None]:
    """Make a typer command of a function that returns its exit code; a user's mistake is printed, not raised."""

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(int(_run(lambda: function(*args, **kwargs))))

    return command


def _run(work: Callable[[], ExitCode]) -> ExitCode:
    from autotune.ir.errors import ProgramError
    from autotune.realizations.targets import UnknownTargetError

    try:
        return work()
    except NothingStored as error:
        return _complain(error, ExitCode.NOTHING_STORED)
    except (AutotuneError, ProgramError, UnknownTargetError) as error:
        return _complain(error, ExitCode.BAD_INPUT)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _complain(error: Exception, code: ExitCode) -> ExitCode:
    print(f"error: {error}", file=sys.stderr)
    return code
