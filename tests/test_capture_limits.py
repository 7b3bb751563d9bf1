"""Limits of cgroups, of both versions, from trees of files as kernels show them."""

from pathlib import Path

from hostwheel.user.capture_limits import limits


def tree(root: Path, **files: str) -> Path:
    """Files by their path, with __ for each slash."""
    for name, content in {"proc__meminfo": "MemTotal:  1024 kB\n", **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_cgroup_2_narrowest_of_ours_and_those_above(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        proc__self__cgroup="0::/a/b\n",
        **{
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/memory.max": "2048\n",
            "sys/fs/cgroup/a/memory.max": "4096\n",
            "sys/fs/cgroup/memory.max": "max\n",
        },
    )
    found = limits(root)
    assert (found.quota, found.memory_limit, found.memory) == (1.5, 2048, 1 << 20)


def test_cgroup_1_in_a_container_whose_path_is_the_hosts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        proc__self__cgroup="5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/\n",
        **{
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "8192\n",
        },
    )
    found = limits(root)
    assert (found.quota, found.memory_limit) == (0.5, 8192)


def test_cgroup_1_without_limits(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        proc__self__cgroup="5:cpu,cpuacct:/\n4:memory:/\n",
        **{
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    found = limits(root)
    assert (found.quota, found.memory_limit) == (None, None)


def test_without_cgroups_nothing_is_limited(tmp_path: Path) -> None:
    found = limits(tmp_path)
    assert (found.quota, found.memory_limit, found.memory) == (None, None, None)
    assert found.cpus >= 1
