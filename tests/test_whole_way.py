"""A real build, proved: published, picked, bundled, installed without network, and asked."""

import json
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from hostwheel.__main__ import main
from tests.builds import Built
from tests.bundles import run, unpacked
from tests.served import files_below, serving
from tests.stores import aws_environment, s3_bucket

pytestmark = [pytest.mark.build, pytest.mark.network, pytest.mark.timeout(3600)]

PUBLIC = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject"],
            "Resource": ["arn:aws:s3:::whole-way/*"],
        }
    ]
}
NO_DRIVER = "no NVIDIA driver on this machine"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file), check=True)
    return file


def test_published_to_a_folder_and_installed_back(
    cpu_avx2_proved: Built, key: Path, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    publish = ["publish", str(cpu_avx2_proved.out), "--to", str(bucket), "--key", str(key)]
    with serving(files_below(bucket)) as url:
        assert main([*publish, "--read-back", url]) == 0
        assert main(["verify", url, "--key", f"{key}.pub"]) == 0
    assert main(["fsck", str(bucket)]) == 0


@pytest.mark.parametrize("server", ["s3_server", "ceph_server"])
def test_published_to_a_server_and_installed_back(
    cpu_avx2_proved: Built,
    server: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """HTML and JSON, by pip and uv, from keys that end in a slash."""
    address = request.getfixturevalue(server)
    aws_environment(address, monkeypatch)
    s3_bucket("whole-way")
    policy = json.dumps({"Version": "2012-10-17", **PUBLIC})
    boto3.client("s3", region_name="us-east-1").put_bucket_policy(Bucket="whole-way", Policy=policy)
    publish = ["publish", str(cpu_avx2_proved.out), "--to", "s3://whole-way"]
    assert main([*publish, "--read-back", f"{address}/whole-way"]) == 0
    assert "only HTML" not in capsys.readouterr().err
    assert main(["fsck", "s3://whole-way"]) == 0


def test_from_a_captured_host_to_an_answer(
    cpu_avx2_proved: Built,
    key: Path,
    smollm2: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """capture → pick → bundle → verify → install offline → answer."""
    bucket, host, bundle = (tmp_path / name for name in ("bucket", "host.toml", "submission.zip"))
    signed = ["--to", str(bucket), "--key", str(key)]
    assert main(["publish", str(cpu_avx2_proved.out), *signed]) == 0
    capsys.readouterr()
    assert main(["capture"]) == 0
    host.write_text(capsys.readouterr().out)
    assert main(["pick", str(bucket), "--host", str(host), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["picked"]["recipe"] == "cpu-avx2"
    wanted = ["--host", str(host), "--gguf", str(smollm2), "-o", str(bundle), "--key", str(key)]
    assert main(["bundle", str(bucket), *wanted]) == 0
    assert main(["verify", str(bundle), "--key", f"{key}.pub"]) == 0
    folder = unpacked(bundle, tmp_path / "a place")
    install = (sys.executable, folder / "install.py", "--venv", tmp_path / "venv")
    done = run(["unshare", "-rn", *install])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"a completion by {smollm2.name}" in done.stdout


def test_a_cuda_draft_is_bundled_up_to_the_line_about_the_driver(
    a10g_draft: Built, tmp_path: Path
) -> None:
    """C1, C2, C4: CUDA's libraries come along, the driver cannot, and the import says so."""
    bundle = tmp_path / "submission.zip"
    assert main(["bundle", str(a10g_draft.out), "--prune", "-o", str(bundle)]) == 0
    folder = unpacked(bundle, tmp_path / "a place")
    install = (sys.executable, folder / "install.py", "--venv", tmp_path / "venv")
    done = run(["unshare", "-rn", *install])
    assert done.returncode == 0, done.stdout + done.stderr
    python = tmp_path / "venv" / "bin" / "python"
    said = run(["unshare", "-rn", python, "-c", "import llama_cpp"])
    assert said.returncode == 0
    assert NO_DRIVER in said.stderr
