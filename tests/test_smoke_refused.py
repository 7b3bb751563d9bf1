"""Where nothing is smoke-tested: other bytes, or what the machine lacks."""

import argparse
import errno
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.smoke import record, smoke
from hostwheel.smoke.command import add_smoke_arguments
from hostwheel.smoke.emulate import EMULATOR
from hostwheel.smoke.model import install_smollm2
from hostwheel.smoke.smoke import Request
from tests.smokes import dist, outcomes, status, written

pytest_plugins = ["tests.smoke_fixtures"]


def test_other_bytes_than_those_built_are_not_tested(request_all: Request) -> None:
    wheel = next(path for path in dist(request_all.out) if path.suffix == ".whl")
    wheel.write_text("something else")
    with pytest.raises(BadInput, match="is not what was built: sha256"):
        smoke.smoke(request_all)
    wheel.unlink()
    with pytest.raises(BadInput, match="build it again"):
        smoke.smoke(request_all)
    (request_all.out / "build.json").unlink()
    with pytest.raises(
        BadInput,
        match=r"no build in .*cpu-avx2: build.json: No such file or directory;"
        r" `hostwheel build cpu-avx2` makes one$",
    ):
        status(request_all)


def test_what_is_no_recipe_is_said_to_be_none(request_all: Request) -> None:
    parser = argparse.ArgumentParser()
    add_smoke_arguments(parser)
    arguments = parser.parse_args(["nosuch", "--out", str(request_all.out.parent)])
    with pytest.raises(BadInput, match=r"^no recipe 'nosuch'"):
        arguments.run(arguments)


def test_a_plan_that_was_changed_after_the_build_is_refused(request_all: Request) -> None:
    """Without its CPU model, emulation would silently not be asked for."""
    said = json.loads((request_all.out / "build.json").read_text())
    said["plan"]["host"]["cpu"]["emulate"] = None
    (request_all.out / "build.json").write_text(json.dumps(said))
    with pytest.raises(BadInput, match=r"build.json: its plan was changed.*build it again"):
        smoke.smoke(request_all)


def test_no_room_for_the_copies_is_what_the_machine_lacks(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(MachineLacks, match=r"no room for a copy of .* TMPDIR"):
        smoke.smoke(request_all)


def test_evidence_that_cannot_be_written_leaves_nothing(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fresh: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        record.write_evidence(request_all.out, {})
    assert not list(request_all.out.glob(".smoke*"))


def test_without_the_emulator_nothing_is_run(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(MachineLacks, match=f"{EMULATOR}.*apt-get install qemu-user") as lacking:
        status(request_all)
    assert lacking.value.exit_code == 3
    assert not (request_all.out / "smoke.json").exists()


def test_what_the_suite_imports_is_asked_for(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smoke, "NEEDED", ("pytest", "no_such_thing"))
    with pytest.raises(MachineLacks, match=r"needs no-such-thing .*uv pip install"):
        smoke.smoke(request_all)


def test_without_the_sources_of_llama_cpp_it_says_where_they_come_from(
    request_all: Request, tmp_path: Path
) -> None:
    request = Request(out=request_all.out, model=request_all.model, source=tmp_path)
    with pytest.raises(MachineLacks, match="give --source"):
        smoke.smoke(request)


def test_on_a_cpu_that_the_build_is_not_for_nothing_is_run(
    request_all: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smoke, "missing", lambda features: ("avx512f",))
    assert status(request_all) == 3
    assert "not run here: this CPU lacks avx512f" in capsys.readouterr().out
    evidence = written(request_all.out)
    assert not evidence["passed"]
    assert outcomes(evidence) == {"smoke": "not run"}


def test_on_such_a_cpu_what_passed_of_the_same_files_stays(
    request_all: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke.smoke(request_all)
    before = written(request_all.out)
    monkeypatch.setattr(smoke, "missing", lambda features: ("avx512f",))
    assert status(request_all) == 3
    assert "smoke.json stays: it is of the same files" in capsys.readouterr().err
    assert written(request_all.out) == before
    (request_all.out / "smoke.json").write_text(json.dumps({**before, "artifacts": {}}))
    assert status(request_all) == 3
    assert not written(request_all.out)["passed"]


def test_a_model_that_is_not_there_is_bad_input(request_all: Request) -> None:
    request = Request(out=request_all.out, model=Path("/no/model"), source=request_all.source)
    with pytest.raises(BadInput, match="there is no model /no/model"):
        smoke.smoke(request)


def test_the_model_that_cannot_be_had_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(MachineLacks, match="give --model FILE"):
        install_smollm2(tmp_path / "model")
