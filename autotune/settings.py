"""What a user may set once for all commands, and which of four places each value came from.
Must not know what a setting does."""

from __future__ import annotations

import logging
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from autotune.errors import AutotuneError

PREFIX = "AUTOTUNE_"
_log = logging.getLogger(__name__)


class BadSetting(AutotuneError):
    """A setting whose text has no meaning."""

    sentence = "{source} sets {name} to {text!r}"
    remedy = "expected {expected}"


class UnknownSetting(AutotuneError):
    """A name in `[tool.autotune]` that is no setting."""

    sentence = "{source} sets {name!r}, which is no setting"
    remedy = "expected one of {known}"


class UnreadableProject(AutotuneError):
    """A `pyproject.toml` that is not TOML."""

    sentence = "{path} cannot be read: {detail}"
    remedy = "correct the file, or run the command from another directory"


class Source(Enum):
    """Where a value comes from, strongest first."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    PROJECT = "pyproject.toml"
    DEFAULT = "default"


class Effort(Enum):
    """How much a search may take where nothing more exact is said."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force.

    Units: `budget_s` seconds a workload, None for what the effort allows. `max_trials` is None where only time limits a
    search. `origins` names the
    source of every value, in the order of SETTINGS.
    """

    database: Path
    target: str
    effort: Effort
    budget_s: float | None
    max_trials: int | None
    seed: int
    log_level: str
    origins: tuple[tuple[str, Source], ...]

    def origin(self, name: str) -> Source:
        """Where the value of a setting came from."""
        return dict(self.origins)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its name in `[tool.autotune]` and on the command line, what it accepts and what it is by default."""

    name: str
    field: str
    expected: str
    read: Callable[[Any], Any]
    default: Callable[[], Any]

    @property
    def variable(self) -> str:
        """Name of its environment variable."""
        return PREFIX + self.name.upper().replace("-", "_")


def data_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """The platform's directory for data of this program that a user wants to keep."""
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "autotune"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "autotune"
    given = Path(environment.get("XDG_DATA_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".local" / "share") / "autotune"


def _path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError
    return Path(value).expanduser().absolute()


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _seconds(value: object) -> float:
    """A number of seconds, or text with a unit: `500ms`, `60s`, `10m`, `1h`."""
    number = value
    scale = 1.0
    if isinstance(value, str):
        number = value.strip()
        for unit, factor in (("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)):
            if number.endswith(unit):
                number, scale = number.removesuffix(unit), factor
                break
    if isinstance(number, bool) or not isinstance(number, str | int | float):
        raise ValueError
    seconds = float(number) * scale
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError
    return int(value)


def _positive(value: object) -> int:
    number = _whole(value)
    if number < 1:
        raise ValueError
    return number


def _effort(value: object) -> Effort:
    return Effort(_text(value).lower())


def _level(value: object) -> str:
    name = _text(value).upper()
    if name not in _LEVELS:
        raise ValueError
    return name


_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

SETTINGS = (
    Setting(
        name="database",
        field="database",
        expected="the path of a file",
        read=_path,
        default=lambda: data_directory() / "policies.sqlite",
    ),
    Setting(
        name="target",
        field="target",
        expected="a target such as 'simd' or 'simd:avx2'",
        read=_text,
        default=lambda: "simd",
    ),
    Setting(
        name="effort",
        field="effort",
        expected=f"one of {', '.join(effort.value for effort in Effort)}",
        read=_effort,
        default=lambda: Effort.DEFAULT,
    ),
    Setting(
        name="budget",
        field="budget_s",
        expected="a time above zero such as '60s', '10m' or a number of seconds",
        read=_seconds,
        default=lambda: None,
    ),
    Setting(
        name="max-trials",
        field="max_trials",
        expected="a whole number above zero",
        read=_positive,
        default=lambda: None,
    ),
    Setting(name="seed", field="seed", expected="a whole number", read=_whole, default=lambda: 0),
    Setting(
        name="log-level",
        field="log_level",
        expected=f"one of {', '.join(_LEVELS)}",
        read=_level,
        default=lambda: "WARNING",
    ),
)


def load_settings(
    given: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    directory: Path | None = None,
) -> Settings:
    """The values in force: the command line's (`given`, by setting name, None for not given), else the environment's,
    else those of the nearest `pyproject.toml` at or above `directory` that has a `[tool.autotune]`, else defaults.

    Raises: BadSetting, UnknownSetting, UnreadableProject; KeyError where `given` names no setting.
    """
    given = dict(given or {})
    unknown = set(given) - {setting.name for setting in SETTINGS}
    if unknown:
        raise KeyError(f"no setting {', '.join(sorted(unknown))}")
    project, table = _project_table(directory or Path.cwd())
    _warn_of_unknown_variables(environment)
    values: dict[str, Any] = {}
    origins: list[tuple[str, Source]] = []
    for setting in SETTINGS:
        places = (
            (Source.COMMAND_LINE, f"the option --{setting.name}", given.get(setting.name)),
            (Source.ENVIRONMENT, "the environment variable", environment.get(setting.variable) or None),
            (Source.PROJECT, str(project), table.get(setting.name)),
        )
        source, place, text = next((found for found in places if found[2] is not None), (Source.DEFAULT, "", None))
        name = setting.variable if source is Source.ENVIRONMENT else setting.name
        values[setting.field] = setting.default() if source is Source.DEFAULT else _read(setting, place, name, text)
        if source is Source.PROJECT and setting.field == "database":
            values["database"] = (project.parent / Path(str(text)).expanduser()).absolute()
        origins.append((setting.name, source))
    return Settings(**values, origins=tuple(origins))


def _read(setting: Setting, place: str, name: str, text: object) -> Any:
    try:
        return setting.read(text)
    except ValueError:
        raise BadSetting(source=place, name=name, text=text, expected=setting.expected) from None


def _project_table(directory: Path) -> tuple[Path, dict[str, Any]]:
    """The nearest file with a `[tool.autotune]` and that table, names checked."""
    for folder in (directory.absolute(), *directory.absolute().parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("autotune")
        except (OSError, ValueError) as error:
            raise UnreadableProject(path=path, detail=str(error)) from error
        if table is None:
            continue
        known = [setting.name for setting in SETTINGS]
        for name in table:
            if name not in known:
                raise UnknownSetting(source=path, name=name, known=", ".join(known))
        return path, table
    return directory / "pyproject.toml", {}


def _warn_of_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {setting.variable for setting in SETTINGS}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            _log.warning("the environment variable %s is no setting; known are %s", name, ", ".join(sorted(known)))
