"""The tables of a store file and the steps from each schema version to the next.
Must not know what the records mean to a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The step to schema `version` from the one before it."""

    version: int
    statements: tuple[str, ...]


Migrations: TypeAlias = tuple[Migration, ...]

_WORKLOADS = """
CREATE TABLE workloads (
    id TEXT PRIMARY KEY,                -- SHA-256 of the key fields below
    kernel TEXT NOT NULL,               -- fingerprint of the name-free program
    shape TEXT NOT NULL,                -- JSON list
    dtypes TEXT NOT NULL,               -- JSON list, one a parameter
    strides TEXT NOT NULL,
    alignment TEXT NOT NULL,
    cache TEXT NOT NULL,
    threads INTEGER NOT NULL,
    isa_name TEXT NOT NULL,
    isa_triple TEXT NOT NULL,
    isa_cpu TEXT NOT NULL,
    isa_features TEXT NOT NULL,
    isa_vector_bytes INTEGER NOT NULL,
    isa_l1_bytes INTEGER NOT NULL,
    isa_l2_bytes INTEGER NOT NULL,
    isa_l3_bytes INTEGER NOT NULL,
    toolchain_llvm TEXT NOT NULL,
    toolchain_llvmlite TEXT NOT NULL,
    toolchain_code_generation INTEGER NOT NULL,
    space INTEGER NOT NULL,
    kernel_name TEXT NOT NULL,          -- for people, no part of the key
    dims TEXT NOT NULL                  -- JSON list, for people, no part of the key
)
"""

_SEARCHES = """
CREATE TABLE searches (
    uuid TEXT PRIMARY KEY,
    workload TEXT NOT NULL REFERENCES workloads (id),
    seed INTEGER NOT NULL,
    budget_s REAL,
    max_trials INTEGER,
    environment TEXT NOT NULL,          -- JSON
    started REAL NOT NULL,              -- seconds since 1970, UTC
    finished REAL,
    status TEXT NOT NULL
)
"""

_CANDIDATES = """
CREATE TABLE candidates (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL               -- JSON
)
"""

_OUTCOMES = """
CREATE TABLE outcomes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    workload TEXT NOT NULL REFERENCES workloads (id),
    candidate TEXT NOT NULL REFERENCES candidates (id),
    search TEXT REFERENCES searches (uuid),
    state TEXT NOT NULL,
    reason TEXT NOT NULL,               -- JSON
    samples_ns TEXT NOT NULL,           -- JSON list
    compile_seconds REAL,
    code_bytes INTEGER,
    workspace_bytes INTEGER,
    object_sha256 TEXT,
    picked TEXT NOT NULL,
    rigor INTEGER CHECK (rigor BETWEEN 0 AND 5),
    environment TEXT NOT NULL,          -- JSON
    predicted_ns REAL,
    recorded REAL NOT NULL              -- seconds since 1970, UTC
)
"""

_POLICIES = """
CREATE TABLE policies (                 -- derived from outcomes, rebuilt at will
    workload TEXT PRIMARY KEY REFERENCES workloads (id),
    outcome TEXT NOT NULL REFERENCES outcomes (uuid),
    rigor INTEGER NOT NULL,
    expected_ns REAL NOT NULL
)
"""

_APPEND_ONLY = """
CREATE TRIGGER outcomes_append_only_{lower} BEFORE {verb} ON outcomes
BEGIN SELECT RAISE(ABORT, 'outcomes are append-only'); END
"""

_ONLY_IMPROVE = """
CREATE TRIGGER policies_only_improve BEFORE UPDATE ON policies
WHEN NEW.rigor < OLD.rigor OR (NEW.rigor = OLD.rigor AND NEW.expected_ns > OLD.expected_ns)
BEGIN SELECT RAISE(ABORT, 'a policy may only gain rigor or time'); END
"""

MIGRATIONS: Migrations = (
    Migration(
        version=1,
        statements=(
            _WORKLOADS,
            _SEARCHES,
            _CANDIDATES,
            _OUTCOMES,
            _POLICIES,
            "CREATE INDEX workloads_by_kernel ON workloads (kernel)",
            "CREATE INDEX workloads_by_name ON workloads (kernel_name)",
            "CREATE INDEX outcomes_by_workload ON outcomes (workload, sequence)",
            "CREATE INDEX searches_by_workload ON searches (workload)",
            _APPEND_ONLY.format(verb="UPDATE", lower="update"),
            _APPEND_ONLY.format(verb="DELETE", lower="delete"),
            _ONLY_IMPROVE,
        ),
    ),
    Migration(
        version=2,
        statements=("ALTER TABLE searches ADD COLUMN forbidden TEXT NOT NULL DEFAULT '[]'",),  # JSON list of names
    ),
    Migration(
        version=3,
        statements=("ALTER TABLE searches ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0",),  # 1: reads no earlier search
    ),
)
