"""Readings of a machine from the texts of its system files."""

from __future__ import annotations

import pytest

from autotune.measure.machine import (
    cache_sizes,
    chosen_word,
    control_groups,
    least_step,
    node_count,
    observe_machine,
    parse_quota,
    parse_size,
    quota_cores,
    siblings,
    steal_share,
    turbo,
)

STAT = "cpu  1 1 1 1 1 1 1 1 9 9\ncpu0 50 0 20 20 0 0 0 10 7 7\ncpu1 1 0 0 99 0 0 0 0 0 0\nintr 5"
CACHE = "/sys/devices/system/cpu/cpu0/cache/index"
CACHES = {
    f"{CACHE}0/type": "Data",
    f"{CACHE}0/level": "1",
    f"{CACHE}0/size": "32K",
    f"{CACHE}1/type": "Instruction",
    f"{CACHE}1/level": "1",
    f"{CACHE}1/size": "64K",
    f"{CACHE}2/type": "Unified",
    f"{CACHE}2/level": "2",
    f"{CACHE}2/size": "1M",
}


def test_the_two_drivers_say_in_opposite_words_whether_a_core_may_run_faster() -> None:
    assert (turbo("0", None), turbo("1", None)) == (True, False)
    assert (turbo(None, "1"), turbo(None, "0"), turbo(None, None)) == (True, False, None)


def test_steal_is_a_part_of_the_core_s_time_and_guest_time_counts_once() -> None:
    assert steal_share(STAT, 0) == pytest.approx(0.1)
    assert steal_share(STAT, 1) == 0.0
    assert steal_share("cpu0 1 2 3 4", 0) is None and steal_share("", 0) is None


def test_a_quota_is_read_from_the_process_s_own_group_in_either_version() -> None:
    second = {"/proc/self/cgroup": "0::/jobs/a", "/sys/fs/cgroup/jobs/a/cpu.max": "150000 100000"}
    assert quota_cores(second.get) == 1.5
    root = {"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "400000 100000"}
    assert quota_cores(root.get) == 4.0
    first = {
        "/proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n0::/",
        "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us": "50000",
        "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us": "100000",
    }
    assert quota_cores(first.get) == 0.5
    unlimited = {"/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}
    assert quota_cores(unlimited.get) is None and quota_cores({}.get) is None


def test_groups_end_at_the_root_and_a_quota_without_a_period_means_the_usual_one() -> None:
    assert control_groups("1:name=x:/\n0::/a/b:c") == ("", "/a/b:c")
    assert control_groups("") == ("",)
    assert (parse_quota("50000"), parse_quota("max"), parse_quota(None)) == (0.5, None, None)


def test_caches_that_hold_data_are_listed_by_level() -> None:
    assert cache_sizes(CACHES.get, 0) == ((1, 32768), (2, 1 << 20))
    assert cache_sizes({}.get, 0) == ()
    assert [parse_size(text) for text in ("32K", "2M", "1G", "512")] == [32768, 2 << 20, 1 << 30, 512]


def test_siblings_nodes_and_huge_pages_are_read_from_the_system_s_notation() -> None:
    assert siblings("0,4", 4) == {0} and siblings("2-3", 2) == {3} and siblings(None, 1) == frozenset()
    assert [node_count(text) for text in ("0", "0-1", None)] == [1, 2, 1]
    assert chosen_word("always [madvise] never") == "madvise"
    assert chosen_word("madvise") is None and chosen_word(None) is None


def test_the_timer_s_step_is_the_least_one_above_zero() -> None:
    assert least_step([5, 5, 45, 85, 105]) == 20
    assert least_step([5, 5]) == 0


def test_a_machine_without_any_of_the_files_is_still_observed() -> None:
    state = observe_machine(0, lambda path: None)
    assert (state.governor, state.turbo, state.steal, state.quota_cores, state.huge_pages) == (None,) * 5
    assert state.nodes == 1 and state.caches_bytes == () and state.cores >= 1
    assert all(alignment >= 1 for alignment in state.array_alignments)
