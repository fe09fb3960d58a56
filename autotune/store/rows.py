"""Records as rows of the tables and as lines of an export, and back.
Must not know connections or files."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Protocol, TypeAlias

from autotune.ir.serial import Json, to_json
from autotune.ir.types import DType
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.store.keys import AlignmentClass, CacheMode, Isa, StrideClass, Toolchain, Workload, WorkloadKey
from autotune.store.records import Outcome, PickReason, Rigor, Search, SearchStatus

Columns: TypeAlias = dict[str, object]


class Row(Protocol):
    """Values by column name."""

    def __getitem__(self, name: str, /) -> Any: ...


def dump(data: object) -> str:
    """Canonical JSON text of plain data."""
    return json.dumps(to_json(data) if not isinstance(data, dict) else data, sort_keys=True, separators=(",", ":"))


def workload_columns(workload: Workload) -> Columns:
    key = workload.key
    columns: Columns = {
        "id": key.id,
        "kernel": key.kernel,
        "shape": dump(key.shape),
        "dtypes": dump(key.dtypes),
        "strides": key.strides.value,
        "alignment": key.alignment.value,
        "cache": key.cache.value,
        "threads": key.threads,
        "space": key.space,
        "kernel_name": workload.kernel_name,
        "dims": dump(workload.dims),
    }
    columns |= {f"isa_{f.name}": getattr(key.isa, f.name) for f in dataclasses.fields(Isa)}
    columns |= {f"toolchain_{f.name}": getattr(key.toolchain, f.name) for f in dataclasses.fields(Toolchain)}
    return columns


def workload_from(row: Row) -> Workload:
    key = WorkloadKey(
        kernel=row["kernel"],
        shape=tuple(json.loads(row["shape"])),
        dtypes=tuple(DType(name) for name in json.loads(row["dtypes"])),
        strides=StrideClass(row["strides"]),
        alignment=AlignmentClass(row["alignment"]),
        cache=CacheMode.parse(row["cache"]),
        threads=row["threads"],
        isa=Isa(**{f.name: row[f"isa_{f.name}"] for f in dataclasses.fields(Isa)}),
        toolchain=Toolchain(**{f.name: row[f"toolchain_{f.name}"] for f in dataclasses.fields(Toolchain)}),
        space=row["space"],
    )
    return Workload(key=key, kernel_name=row["kernel_name"], dims=tuple(json.loads(row["dims"])))


def candidate_columns(candidate: Candidate) -> Columns:
    return {"id": candidate.id, "content": dump(candidate)}


def candidate_from(row: Row) -> Candidate:
    return Candidate.from_json(json.loads(row["content"]))


def search_columns(search: Search) -> Columns:
    columns: Columns = {f.name: getattr(search, f.name) for f in dataclasses.fields(search)}
    return columns | {
        "environment": dump_json(search.environment),
        "status": search.status.value,
        "forbidden": dump(search.forbidden),
        "fresh": int(search.fresh),
    }


def search_from(row: Row) -> Search:
    values = {f.name: row[f.name] for f in dataclasses.fields(Search)}
    values |= {"environment": json.loads(row["environment"]), "status": SearchStatus(row["status"])}
    values |= {"forbidden": tuple(json.loads(row["forbidden"])), "fresh": bool(row["fresh"])}
    return Search(**values)


def outcome_columns(outcome: Outcome) -> Columns:
    columns: Columns = {f.name: getattr(outcome, f.name) for f in dataclasses.fields(outcome)}
    return columns | {
        "reason": dump_json(outcome.reason),
        "samples_ns": dump(outcome.samples_ns),
        "environment": dump_json(outcome.environment),
        "state": outcome.state.value,
        "picked": outcome.picked.value,
        "rigor": None if outcome.rigor is None else int(outcome.rigor),
    }


def outcome_from(row: Row) -> Outcome:
    values = {f.name: row[f.name] for f in dataclasses.fields(Outcome)}
    values |= {
        "reason": json.loads(row["reason"]),
        "samples_ns": tuple(float(sample) for sample in json.loads(row["samples_ns"])),
        "environment": json.loads(row["environment"]),
        "state": State(row["state"]),
        "picked": PickReason(row["picked"]),
        "rigor": None if row["rigor"] is None else Rigor(row["rigor"]),
    }
    return Outcome(**values)


def dump_json(data: Json) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))
