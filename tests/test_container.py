"""The container engine without a container: choice, rendering, bases, pins, messages."""

import configparser
import dataclasses
import json
import os
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from importlib import resources
from pathlib import Path

import pytest
from cibuildwheel.oci_container import OCIContainerEngineConfig

from hostwheel.build.build import LOCAL, own_build_folder
from hostwheel.build.toolchain import Compiler
from hostwheel.container.bases import Base, base_for, own_base, read_bases
from hostwheel.container.builder import (
    cache_folder,
    check_no_graft,
    outer_environment,
    refused,
)
from hostwheel.container.command import builder_for
from hostwheel.container.engines import ContainerEngine, choose
from hostwheel.container.image import Looked, copy_tools, have_base, make_image
from hostwheel.container.pins import digest_of, pin_bases, with_digest
from hostwheel.container.render import EXCLUDED, Mounts, configuration, planned_in
from hostwheel.errors import BadInput, MachineLacks, Refused, StepFailed
from hostwheel.plan.data import find_data
from hostwheel.plan.defines import tree
from hostwheel.plan.plan import Plan
from tests.plans import ROOT, plan_for, write_wheel
from tests.served import serving

IMAGES = ROOT / "docker" / "images.toml"
DOCKER = ContainerEngine(name="docker", version="28", own_user=False)
MOUNTS = Mounts(tree=Path("/here/tree"), cache=Path("/here/cache"))
TOOLSET = "/opt/rh/gcc-toolset-14/root/usr/bin"
LOOKED = Looked(
    identity="ab" * 32,
    compiler=Compiler(
        gcc=Path(TOOLSET, "gcc"), gxx=Path(TOOLSET, "g++"), version=(14, 2), version_text="14.2"
    ),
    path=f"{TOOLSET}:/usr/bin:/bin",
    nvcc=None,
)


def planned(recipe: str) -> Plan:
    plan = plan_for(recipe)
    base = base_for(plan, None, read_bases(IMAGES))
    return planned_in(plan, "docker", "hostwheel:1", LOOKED, base)


@pytest.mark.parametrize("recipe", ["a10g", "a10g-cu12", "cpu-avx2", "cpu-any"])
def test_a_container_changes_nothing_but_the_engine_part(recipe: str) -> None:
    local, inside = plan_for(recipe), planned(recipe)
    assert inside.hash == local.hash
    assert (inside.label, inside.wheel) == (local.label, local.wheel)
    assert dataclasses.replace(inside, engine=local.engine) == local
    assert inside.engine.image == "hostwheel:1"
    assert re.search(r"@sha256:[0-9a-f]{64}$|\(ab+.*\)$", str(inside.engine.base))
    assert inside.engine.passed_through == ()


def test_the_environment_names_the_compiler_of_the_image() -> None:
    environment = planned("a10g").engine.environment
    assert environment["CXX"] == environment["CUDAHOSTCXX"] == f"{TOOLSET}/g++"
    assert environment["PATH"].startswith("/opt/python/cp311-cp311/bin:")
    assert environment["CUDACXX"] == "/var/tmp/hostwheel/cuda-13.0.2/bin/nvcc"
    assert planned("a10g-cu12").engine.environment["CUDACXX"] == "/usr/local/cuda-12.9/bin/nvcc"


def test_cibuildwheel_is_told_everything() -> None:
    plan = planned("a10g")
    config = configuration(DOCKER, plan, MOUNTS, (1000, 1000), plan.engine.environment)
    engine = config["container-engine"]
    assert engine["disable-host-mount"] is True
    for argument in (
        "--network=none",
        "--user=1000:1000",
        f"--volume=/here/tree:{tree(plan.source)}",
    ):
        assert argument in engine["create-args"]
    assert config["build-frontend"]["args"] == ["--no-isolation"]
    repair = config["repair-wheel-command"]
    assert f"--plat {plan.platform_tag} --only-plat --disable-isa-ext-check" in repair
    assert all(f"--exclude '{name}'" in repair for name in EXCLUDED)
    assert config["audit-command"] == ""  # it would install something from the network
    assert "$" not in "".join(config["environment"].values())  # cibuildwheel would expand it


def test_cibuildwheel_knows_our_engine_options() -> None:
    fields = {field.name for field in dataclasses.fields(OCIContainerEngineConfig)}
    assert {"name", "create_args", "disable_host_mount"} <= fields


@pytest.mark.parametrize(
    ("engine", "uid", "options"),
    [
        (DOCKER, 1000, ("--user=1000:1000",)),
        (DOCKER, 0, ()),
        (dataclasses.replace(DOCKER, own_user=True), 1000, ()),
        (dataclasses.replace(DOCKER, name="podman", own_user=True), 1000, ("--userns=keep-id",)),
    ],
)
def test_files_are_to_be_the_callers(
    engine: ContainerEngine, uid: int, options: tuple[str, ...]
) -> None:
    assert engine.run_as_caller(uid, uid) == options


def test_settings_of_other_builds_do_not_reach_cibuildwheel() -> None:
    ours = {"CIBW_BEFORE_ALL": "rm -rf /", "SOURCE_DATE_EPOCH": "1", "DOCKER_HOST": "unix:///x"}
    assert outer_environment(ours) == {"DOCKER_HOST": "unix:///x"}


def test_the_cache_is_the_one_of_local_builds() -> None:
    assert cache_folder({"SCCACHE_DIR": "/big/cache"}) == Path("/big/cache")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/sccache")


# Engines that do not work, as scripts.
SILENT = "#!/bin/sh\nexit 1\n"
NO_DAEMON = """\
#!/bin/sh
echo "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?" >&2
exit 1
"""
NO_PERMISSION = """\
#!/bin/sh
echo "permission denied while trying to connect to the Docker daemon socket" >&2
exit 1
"""
PRETENDS = """\
#!/bin/sh
case $1 in
version) echo 9.9 ;;
info) echo false ;;
import) cat >/dev/null; echo sha256:1 ;;
run) echo "cannot start: no cgroups here" >&2; exit 125 ;;
esac
"""
FULL = """\
#!/bin/sh
[ "$1" = image ] && exit 1
echo "write /var/lib/docker/layer.tar: no space left on device" >&2
exit 1
"""
WORKS = PRETENDS.replace('echo "cannot start: no cgroups here" >&2; exit 125', "exit 42")
LIMITED = PRETENDS.replace(
    'echo "cannot start: no cgroups here" >&2; exit 125',
    'case "$*" in *--ulimit=nofile=*) exit 42 ;; esac; echo "error setting rlimit 7" >&2; exit 126',
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for scripts that stand in for engines; nothing else of their names is found."""
    for tool in ("sh", "cat"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "docker: not installed (apt-get install docker.io)"),
        (NO_DAEMON, "docker: its daemon is not running (as root: systemctl start docker)"),
        (NO_PERMISSION, "usermod -aG docker USER"),
        (PRETENDS, "docker: it does not start a container: cannot start: no cgroups here"),
        (SILENT, "docker: no reason given"),
    ],
)
def test_an_engine_that_does_not_work_is_named_with_what_to_do(
    programs: Path, script: str | None, message: str
) -> None:
    if script:
        put(programs, "docker", script)
    with pytest.raises(MachineLacks) as caught:
        choose("docker")
    assert message in str(caught.value)
    assert "--engine local" in str(caught.value)


def test_auto_takes_what_starts_a_container_and_says_why(programs: Path) -> None:
    put(programs, "docker", PRETENDS)
    put(programs, "podman", WORKS)
    choice = choose("auto")
    assert choice.engine is not None
    assert (choice.engine.name, choice.engine.limits) == ("podman", ())
    assert choice.why.startswith("podman 9.9: the first that starts a container (docker: ")


def test_auto_is_local_where_nothing_works(programs: Path) -> None:
    choice = choose("auto")
    assert choice.engine is None
    assert "docker: not installed" in choice.why
    assert "podman: not installed" in choice.why


def test_an_engine_that_may_not_raise_limits_gets_ours(programs: Path) -> None:
    put(programs, "podman", LIMITED)
    engine = choose("podman").engine
    assert engine is not None
    assert [option.split("=")[1] for option in engine.limits] == ["nofile", "nproc"]


@pytest.mark.parametrize(
    ("act", "image"),
    [
        (lambda folder: have_base(DOCKER, own_base("mine:1", None)), "mine:1"),
        (
            lambda folder: make_image(DOCKER, own_base("mine:1", None), "ours:1", folder, ()),
            "ours:1",
        ),
    ],
    ids=["pull", "build"],
)
def test_no_room_for_an_image_is_said(
    programs: Path, act: Callable[[Path], object], image: str
) -> None:
    put(programs, "docker", FULL)
    with pytest.raises(MachineLacks, match=f"no room on the disk for the image {image}"):
        act(programs)


def test_the_pinned_digest_is_cibuildwheels_own() -> None:
    config = configparser.ConfigParser()
    text = resources.files("cibuildwheel.resources") / "pinned_docker_images.cfg"
    config.read_string(text.read_text())
    theirs = config["x86_64"]["manylinux_2_28"].partition("  #")[0]
    assert read_bases(IMAGES)["manylinux_2_28"].image == theirs


def test_a_base_has_a_digest_or_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "images.toml"
    head = '[base.mine]\nrepository = "quay.io/me/mine"\ntag = "1"\n'
    for rest, message in (
        ("", "neither"),
        ('digest = "sha256:12"\n', "expected sha256: and 64"),
        ('unpinned = "why"\nsha = "1"\n', "base.mine.sha is not a key"),
    ):
        file.write_text(head + rest)
        with pytest.raises(BadInput, match=message):
            read_bases(file)
    file.write_text(head + 'unpinned = "no network"\n')
    assert read_bases(file)["mine"].image == "quay.io/me/mine:1"


def test_the_base_follows_the_toolkit() -> None:
    bases = read_bases(IMAGES)
    assert base_for(plan_for("a10g"), None, bases).name == "manylinux_2_28"
    assert base_for(plan_for("a10g-cu12"), None, bases).cuda == "12.9"
    assert base_for(plan_for("a10g"), "mine:1", bases).image == "mine:1"
    for recipe, wanted, message in (
        ("a10g-cu12", "manylinux_2_28", "has CUDA none in it; a10g-cu12 needs CUDA 12.9"),
        ("a10g", "manylinux_2_28-cuda12_9", "a10g needs CUDA none of its own"),
        ("a10g", "manylinux_2_29", "did you mean 'manylinux_2_28'"),
    ):
        with pytest.raises(BadInput, match=message):
            base_for(plan_for(recipe), wanted, bases)


def test_cuda_12_is_in_label_requirements_and_floor() -> None:
    plan = plan_for("a10g-cu12")
    assert plan.cuda is not None
    assert (plan.label, plan.cuda.driver) == ("cu129.sm86.avx2", "525.60.13")
    assert plan.defines["GGML_CUDA_COMPRESSION_MODE"] == "none"  # else the floor is 550
    assert plan.requires == ("nvidia-cuda-runtime-cu12>=12.9,<13", "nvidia-cublas-cu12>=12.9,<13")
    runpath = plan.defines["HOSTWHEEL_RUNPATH"].split(";")
    packages = ("cuda_runtime", "cublas")  # one folder each
    assert runpath == ["$ORIGIN", *(f"$ORIGIN/../../nvidia/{name}/lib" for name in packages)]
    assert list(plan.locks) == ["build-tools.txt"]


def test_the_local_engine_says_where_cuda_12_is() -> None:
    with pytest.raises(MachineLacks, match="--engine docker"):
        LOCAL.compiler(plan_for("a10g-cu12"))


def test_a_base_without_an_engine_is_a_slip() -> None:
    with pytest.raises(BadInput, match="--base is for containers"):
        builder_for(plan_for("a10g"), find_data(ROOT / "recipes"), "local", "mine:1")


def test_objects_of_another_compiler_are_not_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    for objects, kept in (("local", False), ("local", True), ("image", False), ("image", True)):
        own_build_folder(folder, objects)
        assert (folder / "a.o").exists() is kept
        (folder / "a.o").touch()
    (folder / "compiled-by").unlink()  # as builds before there was one left it: local
    own_build_folder(folder, "local")
    assert (folder / "a.o").exists()


def test_what_auditwheel_says_becomes_a_refusal() -> None:
    failed = StepFailed("cibuildwheel failed")
    said = 'cannot repair "x.whl" to "manylinux_2_28_x86_64" ABI because of the presence of '
    refusal = refused(f"{said}too-recent versioned symbols. You'll need\n", failed)
    assert isinstance(refusal, Refused)
    assert "newer symbols" in str(refusal)
    lost = refused('required library "libfoo.so.1" could not be located', failed)
    assert isinstance(lost, Refused)
    assert "libfoo.so.1" in str(lost)
    assert refused("ninja: build stopped", failed) is failed


def test_a_second_copy_of_ours_is_refused(tmp_path: Path) -> None:
    good = {"llama_cpp/lib/libggml.so": b"", "llama_cpp.libs/": b""}
    check_no_graft(write_wheel(tmp_path / "good.whl", good))
    bad = {**good, "llama_cpp.libs/libggml-1234.so": b""}
    with pytest.raises(Refused, match=r"put in llama_cpp\.libs/libggml-1234\.so"):
        check_no_graft(write_wheel(tmp_path / "bad.whl", bad))


def test_tools_for_an_image_start_with_its_python_and_leave_ours_alone(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    (tools / "bin" / "crt").mkdir(parents=True)  # as nvcc has it
    (tools / "bin" / "cmake").write_text("#!/home/me/venv/bin/python3.12\nimport cmake\n")
    (tools / "bin" / "ninja").write_bytes(b"\x7fELF")
    (tools / "bin" / "secret").touch(mode=0o600)
    copy_tools(tools, tmp_path / "copy")
    copied = tmp_path / "copy" / "bin"
    assert (copied / "cmake").read_text() == "#!/opt/python/cp311-cp311/bin/python\nimport cmake\n"
    assert (copied / "ninja").read_bytes() == b"\x7fELF"
    assert (copied / "secret").stat().st_mode & 0o777 == 0o644
    assert (tools / "bin" / "cmake").read_text().startswith("#!/home/me/")
    assert (tools / "bin" / "secret").stat().st_mode & 0o777 == 0o600


class Registry(BaseHTTPRequestHandler):
    """A registry that wants a token first, as quay.io and Docker Hub do."""

    digest = f"sha256:{'ab' * 32}"

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") != "Bearer let-me-in":
            self.send_response(401)
            realm = f'Bearer realm="http://{self.headers["Host"]}/token",service="here",scope="a"'
            self.send_header("WWW-Authenticate", realm)
        elif self.path == "/v2/me/mine/manifests/1" and "oci.image.index" in self.headers["Accept"]:
            self.send_response(200)
            self.send_header("Docker-Content-Digest", self.digest)
        else:
            self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/token?service=here&scope=a" else 400)
        self.end_headers()
        self.wfile.write(json.dumps({"token": "let-me-in"}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_digest_is_looked_up_and_never_made_up() -> None:
    with serving(Registry) as address:
        host = address.removeprefix("http://")
        mine = dataclasses.replace(own_base(f"{host}/me/mine", None), tag="1")
        assert digest_of(mine, scheme="http") == Registry.digest
        other = dataclasses.replace(mine, tag="2")
        with pytest.raises(MachineLacks, match="HTTP Error 404"):
            digest_of(other, scheme="http")
    with pytest.raises(MachineLacks, match=r"images\.toml is as it was"):
        digest_of(mine, scheme="http")


def test_pins_are_written_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "images.toml"
    file.write_text(IMAGES.read_text())
    answers = {"manylinux_2_28": "1", "manylinux_2_28-cuda12_9": "2"}

    def answer(base: Base) -> str:
        if not answers[base.name]:
            raise MachineLacks("no answer")
        return "sha256:" + answers[base.name] * 64

    monkeypatch.setattr("hostwheel.container.pins.digest_of", answer)
    pin_bases(file)
    bases = read_bases(file)
    assert [base.digest for base in bases.values()] == [f"sha256:{n * 64}" for n in ("1", "2")]
    assert "unpinned" not in file.read_text().partition("[base")[2]
    before = file.read_text()
    answers.update({"manylinux_2_28": "3", "manylinux_2_28-cuda12_9": ""})
    with pytest.raises(MachineLacks):
        pin_bases(file)
    assert file.read_text() == before


def test_only_the_bases_own_digest_is_replaced() -> None:
    text = '[base.a]\ntag = "1"\ndigest = "x"\n\n[base.b]\nunpinned = "why"\n'
    b = dataclasses.replace(own_base("b:1", None), name="b")
    assert with_digest(text, b, "y") == text.replace('unpinned = "why"', 'digest = "y"')


def test_the_dockerfile_takes_its_base_as_argument_and_needs_no_network() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[:2] == ["ARG BASE", "FROM ${BASE}"]
    for word in ("sha256:", "pip ", "curl", "apt-get", "yum", "--mount=type=secret"):
        assert word not in "\n".join(lines)
    assert os.access(ROOT / "docker" / "local-base", os.X_OK)
