"""Byte offsets of a packet's private buffers in one workspace.
Must not know nests or targets beyond an alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.ir.buffer import Buffer, StorageClass

ALIGNMENT_BYTES = 64


def linear(buffers: Sequence[Buffer]) -> tuple[tuple[Buffer, ...], int]:
    """Place workspace buffers one after the other, each aligned; also the bytes used.

    Before: offsets of workspace buffers are meaningless.
    After: they are disjoint multiples of 64 bytes; register-class buffers stay at 0 and take no space.
    """
    placed: list[Buffer] = []
    top = 0
    for buffer in buffers:
        if buffer.storage is StorageClass.WORKSPACE:
            placed.append(replace(buffer, offset_bytes=top))
            top += -(-buffer.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        else:
            placed.append(buffer)
    return tuple(placed), top
