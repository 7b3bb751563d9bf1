"""A wheel that the audit refuses does not become the product of a build."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build import build
from hostwheel.build.audited import SHOWN, check_audit
from hostwheel.build.cmake import Configured
from hostwheel.build.evidence import Compiled, write_symbols
from hostwheel.build.product import Product, unpack_wheel
from hostwheel.errors import Refused
from tests.audits import planned_wheel
from tests.plans import LIB, plan_for, wheel_files, write_wheel

PLAN = plan_for("cpu-avx2")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    return wheel_files(PLAN, tmp_path_factory.mktemp("cpu"))


def product(wheel: Path, folder: Path) -> Product:
    made = unpack_wheel(wheel, folder / "unpacked", folder / "symbols")
    write_symbols(made, made.root / LIB)
    return made


def test_a_wheel_that_fits_its_plan_passes(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    check_audit(PLAN, product(planned_wheel(tmp_path, PLAN, files), tmp_path))


def test_what_the_audit_refuses_is_refused_with_what_to_do(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    wheel = write_wheel(tmp_path / PLAN.wheel, files)  # without a RECORD
    with pytest.raises(Refused, match=r"the audit refuses llama_cpp_python-") as caught:
        check_audit(PLAN, product(wheel, tmp_path))
    assert "\n  WHL001 no RECORD in its dist-info folder; build it again" in str(caught.value)


def test_many_findings_are_counted(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    copies = {f"llama_cpp/lib/copy{i}.so": files[f"{LIB}/libllama.so"] for i in range(2 * SHOWN)}
    wheel = planned_wheel(tmp_path, PLAN, {**files, **copies})
    with pytest.raises(Refused, match=r"\n  and \d+ more$"):
        check_audit(PLAN, product(wheel, tmp_path))


def test_the_build_asks_the_audit(
    tmp_path: Path, files: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has compiled it: `checked` is what a container's wheel goes through, too."""
    stage, bin_folder = tmp_path / "stage", tmp_path / "bin"
    stage.mkdir()
    bin_folder.mkdir()
    for name, content in files.items():
        if name.startswith(f"{LIB}/"):
            (bin_folder / Path(name).name).write_bytes(content)
    monkeypatch.setattr(build, "check_configured", lambda *_: None)
    monkeypatch.setattr(build, "build_folder", lambda _: tmp_path)
    configured = Configured(cache={}, commands=(), said="")
    wheel = write_wheel(stage / PLAN.wheel, files)
    compiled = Compiled(wheel=wheel, configured=configured, cache={}, steps=())
    with pytest.raises(Refused, match="the audit refuses"):
        build.checked(PLAN, compiled)
