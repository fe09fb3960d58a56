"""Records for the tests of the store: small, complete, and different on demand.
Must not know which test uses them."""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.types import DType
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate, Clones, Mapping, Tile
from autotune.store.keys import Isa, Toolchain, Workload, WorkloadKey
from autotune.store.records import Outcome, PickReason, Rigor, Search, new_uuid

ISA = Isa(
    name="avx512",
    triple="x86_64-unknown-linux-gnu",
    cpu="znver4",
    features="+avx512f,+fma",
    vector_bytes=64,
    l1_bytes=32768,
    l2_bytes=1048576,
    l3_bytes=33554432,
)
TOOLCHAIN = Toolchain(llvm="22.1.0", llvmlite="0.50.0", code_generation=1)
KEY = WorkloadKey(
    kernel="a" * 64, shape=(129, 512), dtypes=(DType.F32, DType.BOOL, DType.F32), isa=ISA, toolchain=TOOLCHAIN
)
WORKLOAD = Workload(key=KEY, kernel_name="softmax", dims=("M", "N"))


def workload(**changes: object) -> Workload:
    return replace(WORKLOAD, key=replace(KEY, **changes))  # type: ignore[arg-type]


def candidate(lanes: int = 16) -> Candidate:
    return Candidate(
        tiles=(Tile(axis=0, block=4),),
        mapping=((0, Mapping(axis=1, lanes=lanes)),),
        storage=(),
        nests=((0, 0),),
        transfer=(),
        compute=(),
        tail=(),
        packet=Clones.GENERAL,
    )


def outcome(of: Workload = WORKLOAD, what: Candidate | None = None, **changes: object) -> Outcome:
    """A measured outcome at rigor RACED unless `changes` says otherwise."""
    values: dict[str, object] = {
        "uuid": new_uuid(),
        "workload": of.key.id,
        "candidate": (what or candidate()).id,
        "state": State.MEASURED,
        "reason": {"note": "kept", "ratio": 0.5},
        "samples_ns": (110.0, 100.0, 105.5),
        "compile_seconds": 0.05,
        "code_bytes": 512,
        "workspace_bytes": 0,
        "object_sha256": "b" * 64,
        "picked": PickReason.MODEL,
        "rigor": Rigor.RACED,
        "environment": {"load": 0.25},
        "predicted_ns": 99.5,
        "recorded": 1_790_000_000.25,
    }
    return Outcome(**{**values, **changes})  # type: ignore[arg-type]


def refusal(of: Workload = WORKLOAD, what: Candidate | None = None) -> Outcome:
    return outcome(
        of,
        what,
        state=State.REFUSED,
        reason={"type": "Refused", "rule": "aligned packing"},
        samples_ns=(),
        compile_seconds=None,
        code_bytes=None,
        workspace_bytes=None,
        object_sha256=None,
        rigor=None,
    )


def search(of: Workload = WORKLOAD, **changes: object) -> Search:
    values: dict[str, object] = {
        "uuid": new_uuid(),
        "workload": of.key.id,
        "seed": 7,
        "budget_s": 60.0,
        "max_trials": None,
        "environment": {"governor": "performance"},
        "started": 1_790_000_000.0,
    }
    return Search(**{**values, **changes})  # type: ignore[arg-type]
