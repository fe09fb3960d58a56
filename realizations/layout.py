"""Where the elements of a private buffer lie: pitches of its dimensions, panels, rows kept apart.
Must not know what a buffer holds."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.buffer import BufferAxis

ROW_CONFLICT_BYTES = 2048
CACHE_LINE_BYTES = 64


def laid_out(axes: Sequence[tuple[int, int]], panel: int, element_bytes: int) -> tuple[BufferAxis, ...]:
    """Dimensions of a buffer over (axis, extent) pairs, the last one contiguous, or cut into panels.

    Rows whose distance is a multiple of half a page are moved apart: equal columns of such rows would all fall into a
    few sets of the first-level cache.
    """
    if not axes:
        return ()
    *outer, (last, extent) = axes
    pitch = panel or extent
    if not panel and outer and pitch * element_bytes % ROW_CONFLICT_BYTES == 0:
        pitch += CACHE_LINE_BYTES // element_bytes
    found = []
    for axis, size in reversed(outer):
        found.append(BufferAxis(axis=axis, extent=size, stride=pitch))
        pitch *= size
    tail = BufferAxis(axis=last, extent=extent, stride=1, panel=panel, panel_stride=pitch if panel else 0)
    return (*reversed(found), tail)
