"""A bundle of the real cpu-avx2, with real dependencies from the registry: installed, and asked."""

import json
import sys
import time
from pathlib import Path

import pytest

from hostwheel.smoke.emulate import emulated
from hostwheel.smoke.pythons import other_pythons
from tests.builds import Built
from tests.bundles import build, bundled, install, our_wheel, run, unpacked

pytestmark = [pytest.mark.network, pytest.mark.timeout(600)]

FIRST_TOKEN_S = 60  # from the unpacked bundle, on two cores
SERVERS_ANSWER = """\
import json, subprocess, sys, time, urllib.request
url = "http://127.0.0.1:8099"
server = subprocess.Popen([sys.argv[1], "--port", "8099"], stderr=subprocess.DEVNULL)
try:
    for _ in range(600):
        assert server.poll() is None
        try:
            urllib.request.urlopen(url + "/health").close()
            break
        except OSError:
            time.sleep(0.1)
    asked = json.dumps({"prompt": "Paris is", "n_predict": 3}).encode()
    kind = {"Content-Type": "application/json"}
    answer = urllib.request.urlopen(urllib.request.Request(url + "/completion", asked, kind))
    print(json.load(answer)["tokens_predicted"])
finally:
    server.terminate()
    server.wait()
"""
LOOPBACK = """\
import fcntl, os, socket, struct, sys
request = struct.pack("16sh14x", b"lo", 1)  # SIOCSIFFLAGS, IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, request)
os.execv(sys.argv[1], sys.argv[1:])
"""


def proved(out: Path, model: Path, folder: Path) -> None:
    """The bundle of what lies in `out`, with `model`: without network and root, from a path with
    spaces and letters beyond ASCII, in 60 s; with site-packages read-only; on an emulated Zen 2.
    """
    assert bundled(out, "--gguf", model, "-o", folder / "submission.zip") == 0
    place = folder / "un paquet à soumettre"
    bundle = unpacked(folder / "submission.zip", place / "bundle")
    begun = time.monotonic()
    done = run(["unshare", "-Un", sys.executable, bundle / "install.py", "--venv", place / "venv"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - begun < FIRST_TOKEN_S
    assert f"a completion by {model.name}" in done.stdout
    for path in (place / "venv").rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    python = place / "venv" / "bin" / "python"
    verified = run(["unshare", "-Un", python, "-m", "llama_cpp.hostwheel", "--verify"])
    assert verified.returncode == 0, verified.stdout
    assert served(place / "venv") == 3
    emulated_once(bundle, place / "emulated")


def served(installed: Path) -> int:
    """How many tokens the server answers with; its loopback is the only network."""
    ask = (sys.executable, "-c", SERVERS_ANSWER, installed / "run-server.sh")
    done = run(["unshare", "-rn", sys.executable, "-c", LOOPBACK, *ask])
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def emulated_once(bundle: Path, target: Path) -> None:
    """install.py and what it tests on the target's CPU model, each process wrapped."""
    through = " ".join(emulated(["true"], "EPYC-Rome")[:3])
    argv = [sys.executable, str(bundle / "install.py"), "--target", str(target)]
    done = run(emulated([*argv, "--through", through], "EPYC-Rome"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a completion by" in done.stdout
    refused = run(emulated([*argv[:2], "--check"], "Nehalem"))
    assert refused.returncode == 3
    assert "it lacks avx" in refused.stderr


@pytest.mark.build
def test_from_a_bundle_to_the_first_token(
    cpu_avx2: Built, smollm2: Path, emulator: str, tmp_path: Path
) -> None:
    proved(cpu_avx2.out, smollm2, tmp_path)


def test_real_packages_for_the_oldest_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """numpy and pip are the last that had wheels for it, and run there where it is on hand."""
    made = our_wheel(tmp_path / "ours", "numpy", "jinja2", words=False)
    out = build(tmp_path / "out" / "cpu-avx2", made)
    assert bundled(out, "--python", "3.8", "-o", tmp_path / "s.zip", "--json") == 0
    packages = json.loads(capsys.readouterr().out)["packages"]
    assert packages["numpy"] == "1.24.4"
    assert packages["jinja2"] >= "3.1"
    bundle = unpacked(tmp_path / "s.zip", tmp_path / "bundle")
    assert next(bundle.glob("tools/pip-*.whl")).name == "pip-25.0.1-py3-none-any.whl"
    if python := other_pythons().get("3.8"):
        done = run([python, bundle / "install.py", "--venv", tmp_path / "venv"])
        assert done.returncode == 0, done.stdout + done.stderr
    assert install(bundle, "--check").returncode == 2


def test_the_oldest_glibc_gets_older_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D4: numpy 2.4 has wheels for glibc 2.27 and newer only."""
    made = our_wheel(tmp_path / "ours", "numpy", words=False, glibc="2_17")
    host = {"title": "an old host", "glibc": "2.17", "glibcxx": "3.4.22"}
    out = build(tmp_path / "out" / "cpu-avx2", made, host=host)
    assert bundled(out, "--python", "3.11", "-o", tmp_path / "s.zip", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert tuple(map(int, said["packages"]["numpy"].split(".")[:2])) < (2, 4)
    assert said["glibc"] == "2.17"
    assert not any("manylinux_2_28" in name for name in said["parts"]["other packages"])
