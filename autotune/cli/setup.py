"""Settings in force for one call of the command, and where log messages go.
Must not know what a verb does with the settings."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.realizations.target import Target
    from autotune.settings import Settings


def settings_for(
    *,
    database: str | None = None,
    target: str | None = None,
    effort: str | None = None,
    budget: str | None = None,
    max_trials: int | None = None,
    seed: int | None = None,
    verbose: bool = False,
    quiet: bool = False,
) -> Settings:
    """The command line's values over those of the environment, the project and the defaults; starts logging.

    Raises: BadSetting and its like for a value without meaning.
    """
    from autotune.settings import load_settings

    level = "INFO" if verbose else "ERROR" if quiet else None
    given = {
        "database": database,
        "target": target,
        "effort": effort,
        "budget": budget,
        "max-trials": max_trials,
        "seed": seed,
        "log-level": level,
    }
    settings = load_settings(given)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s")
    logging.getLogger("autotune").setLevel(settings.log_level)
    return settings


def target_and_store(target: str | None, database: str | None, *, quiet: bool, verbose: bool) -> tuple[Target, Path]:
    """What the verbs that read need: the target and the path of the store.

    Raises: UnknownTargetError; BadSetting and its like.
    """
    from autotune.jit import parse_target

    settings = settings_for(database=database, target=target, verbose=verbose, quiet=quiet)
    return parse_target(settings.target), settings.database
