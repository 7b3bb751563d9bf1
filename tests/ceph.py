"""Ceph's S3 server from Debian's packages, unpacked and not installed: one of each daemon.

Objects are in the memory of its storage daemon. Ready in about 15 seconds.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hostwheel.build.build import cache_folder
from tests.plans import lacking, need
from tests.stores import KEYS, free_port, running

PACKAGES = ("radosgw", "ceph-mon", "ceph-osd")
LIBRARIES = "usr/lib/x86_64-linux-gnu"

CONFIG = """\
[global]
fsid = {fsid}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_host = v1:127.0.0.1:{mon_port}
public_network = 127.0.0.0/8
ms_bind_ipv6 = false
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
osd_class_dir = {root}/{libraries}/rados-classes
erasure_code_dir = {root}/{libraries}/ceph/erasure-code
plugin_dir = {root}/{libraries}/ceph
run_dir = {work}
admin_socket = {work}/$name.asok
mon_data = {work}/mon
osd_data = {work}/osd
log_file = {work}/$name.log
pid_file =
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_data = {work}/rgw
"""


def unpacked() -> Path:
    """The packages and what they depend on (65 MB to download), kept beside other downloads."""
    root = cache_folder() / "ceph"
    if not root.is_dir():
        fresh = root.with_name(f".ceph.{os.getpid()}")
        packages = fresh / "packages"
        (packages / "partial").mkdir(parents=True)
        download(packages)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda file: unpack(file, fresh / "root"), packages.glob("*.deb")))
        (fresh / "root").replace(root)
        shutil.rmtree(fresh)
    return root


def download(packages: Path) -> None:
    need("apt-get", "Ceph's packages are Debian's")
    options = ("-qq", "--no-install-recommends", "-o", f"Dir::Cache::archives={packages}")
    argv = ("apt-get", "install", "--yes", "--download-only", *options, *PACKAGES)
    if subprocess.run(argv, capture_output=True).returncode:
        subprocess.run(("apt-get", "update", "-qq"), capture_output=True)
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            lacking(f"needs Debian's packages {' '.join(PACKAGES)}: {done.stderr}")


def unpack(file: Path, root: Path) -> None:
    subprocess.run(("dpkg", "-x", str(file), str(root)), check=True)


def environment(root: Path, config: Path) -> Mapping[str, str]:
    folders = (LIBRARIES, f"{LIBRARIES}/ceph", "usr/lib/ceph", "lib/x86_64-linux-gnu")
    return {
        "PATH": f"{root}/usr/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": ":".join(str(root / folder) for folder in folders),
        "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
        "CEPH_CONF": str(config),
    }


@contextmanager
def ceph(work: Path) -> Iterator[str]:
    """The address of an S3 server whose user has `KEYS`."""
    root, fsid, osd = unpacked(), str(uuid.uuid4()), str(uuid.uuid4())
    mon_port, port = free_port(), free_port()
    for name in ("osd", "rgw"):
        (work / name).mkdir()
    config = work / "ceph.conf"
    config.write_text(
        CONFIG.format(
            fsid=fsid, mon_port=mon_port, port=port, root=root, libraries=LIBRARIES, work=work
        )
    )
    env = environment(root, config)

    def run(*argv: str) -> None:
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=120)

    def serve(port: int | None, *argv: str) -> None:
        stack.enter_context(running(argv, port, env))

    monmap, address = str(work / "monmap"), f"[v1:127.0.0.1:{mon_port}]"
    with ExitStack() as stack:
        run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, monmap)
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        serve(mon_port, "ceph-mon", "-i", "a", "-f", "--public-addr", f"127.0.0.1:{mon_port}")
        run("ceph", "--connect-timeout", "60", "osd", "new", osd)
        run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        serve(None, "ceph-osd", "-i", "0", "-f")
        access, secret = KEYS.values()
        user = ("--uid=t", "--display-name=t", f"--access-key={access}", f"--secret-key={secret}")
        run("radosgw-admin", "user", "create", *user)
        serve(port, "radosgw", "-n", "client.rgw", "-f")
        yield f"http://127.0.0.1:{port}"
