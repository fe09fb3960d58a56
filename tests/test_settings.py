"""Settings: four places, their order, and clear words for what has no meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.settings import (
    PREFIX,
    SETTINGS,
    BadSetting,
    Effort,
    Source,
    UnknownSetting,
    UnreadableProject,
    data_directory,
    load_settings,
)


def project(directory: Path, text: str) -> Path:
    (directory / "pyproject.toml").write_text(text)
    return directory


def test_there_are_at_most_eight_variables_with_one_prefix() -> None:
    assert len(SETTINGS) <= 8
    assert all(setting.variable.startswith(PREFIX) for setting in SETTINGS)
    assert "AUTOTUNE_MAX_TRIALS" in {setting.variable for setting in SETTINGS}


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(environment={}, directory=tmp_path)
    assert (settings.target, settings.budget_s, settings.max_trials, settings.seed) == ("simd", None, None, 0)
    assert settings.effort is Effort.DEFAULT
    assert settings.database == data_directory() / "policies.sqlite"
    assert {source for _, source in settings.origins} == {Source.DEFAULT}


def test_stronger_places_win(tmp_path: Path) -> None:
    project(tmp_path, '[tool.autotune]\nbudget = "2m"\nseed = 3\ntarget = "simd:avx2"\n')
    environment = {"AUTOTUNE_BUDGET": "30", "AUTOTUNE_SEED": "4"}
    settings = load_settings({"seed": 5, "target": None}, environment=environment, directory=tmp_path)
    assert (settings.budget_s, settings.seed, settings.target) == (30.0, 5, "simd:avx2")
    assert settings.origin("seed") is Source.COMMAND_LINE
    assert settings.origin("budget") is Source.ENVIRONMENT
    assert settings.origin("target") is Source.PROJECT
    assert settings.origin("database") is Source.DEFAULT


def test_nearest_project_with_the_table_is_read(tmp_path: Path) -> None:
    project(tmp_path, "[tool.autotune]\nseed = 9\ndatabase = 'kept/policies.sqlite'\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    project(inner, "[project]\nname = 'other'\n")
    settings = load_settings(environment={}, directory=inner)
    assert settings.seed == 9
    assert settings.database == tmp_path / "kept" / "policies.sqlite"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("60s", 60), ("10m", 600), ("1.5h", 5400), ("90", 90), (" 2 s ", 2), (7, 7)]
)
def test_budget_units(tmp_path: Path, text: object, seconds: float) -> None:
    assert load_settings({"budget": text}, environment={}, directory=tmp_path).budget_s == seconds


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("budget", "soon"),
        ("effort", "some"),
        ("budget", "-1s"),
        ("budget", "nan"),
        ("seed", "1.5"),
        ("max-trials", "0"),
        ("log-level", "loud"),
        ("target", " "),
        ("database", " "),
    ],
)
def test_meaningless_text_is_named_with_its_place(tmp_path: Path, name: str, text: str) -> None:
    setting = next(s for s in SETTINGS if s.name == name)
    with pytest.raises(BadSetting) as caught:
        load_settings(environment={setting.variable: text}, directory=tmp_path)
    message = str(caught.value)
    assert message.startswith(f"the environment variable sets {setting.variable} to {text!r}")
    assert f"expected {setting.expected}" in message


def test_wrong_type_in_the_project_file(tmp_path: Path) -> None:
    project(tmp_path, "[tool.autotune]\nseed = true\n")
    with pytest.raises(BadSetting, match=r"pyproject\.toml sets seed to True"):
        load_settings(environment={}, directory=tmp_path)


def test_unknown_name_in_the_project_file(tmp_path: Path) -> None:
    project(tmp_path, "[tool.autotune]\nbuget = 1\n")
    with pytest.raises(UnknownSetting, match="sets 'buget', which is no setting\n  expected one of database, target"):
        load_settings(environment={}, directory=tmp_path)


def test_project_file_that_is_not_toml(tmp_path: Path) -> None:
    project(tmp_path, "[tool.autotune\n")
    with pytest.raises(UnreadableProject, match="cannot be read"):
        load_settings(environment={}, directory=tmp_path)


def test_unknown_variable_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_settings(environment={"AUTOTUNE_BUGDET": "1"}, directory=tmp_path)
    assert "AUTOTUNE_BUGDET is no setting; known are AUTOTUNE_BUDGET" in caplog.text


def test_unknown_option_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no setting colour"):
        load_settings({"colour": 1}, environment={}, directory=tmp_path)


def test_data_directory_follows_the_platform() -> None:
    home = Path.home()
    assert data_directory({"XDG_DATA_HOME": "/data"}, "linux") == Path("/data/autotune")
    assert data_directory({}, "linux") == home / ".local/share/autotune"
    assert data_directory({"XDG_DATA_HOME": "relative"}, "linux") == home / ".local/share/autotune"
    assert data_directory({}, "darwin") == home / "Library/Application Support/autotune"
    assert data_directory({"LOCALAPPDATA": "/local"}, "win32") == Path("/local/autotune")
