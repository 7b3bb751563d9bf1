"""The variant-labelled copy: what it says, that it is a copy, and what installers make of it."""

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
from packaging.version import Version
from variantlib.variant_dist_info import VariantDistInfo
from variantlib.variants_json import VariantsJson

from hostwheel.artifact.contents import open_artifact
from hostwheel.errors import BadInput, Refused
from hostwheel.publish.catalog import Catalog, Needs
from hostwheel.publish.index import render
from hostwheel.publish.properties import LEVELS, properties_of
from hostwheel.publish.variants import SHARED, prove_copy, variant_of
from tests.buckets import AVX2, AVX512, TAG, metadata_of, needs, tiny_wheel, with_variant
from tests.plans import ROOT, plan_for

A10G = "0.3.36+cu130.sm86.avx2"
COPY = f"llama_cpp_python-0.3.36+variants-{TAG}-cu130.sm86.avx2.whl"
INFO = "llama_cpp_python-0.3.36+variants.dist-info"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tiny_wheel(tmp_path, A10G, "nvidia-cuda-runtime")


@pytest.fixture
def copy(wheel: Path, tmp_path: Path) -> Path:
    return variant_of(wheel, needs("86"), tmp_path).file


# what it says


@pytest.mark.parametrize(
    ("need", "properties"),
    [
        (needs(features=()), ()),
        (needs(features=AVX2[:5]), ("x86_64 :: level :: v2",)),
        (needs(features=AVX2[:6]), ("x86_64 :: level :: v2", "x86_64 :: avx :: on")),
        (needs(), ("x86_64 :: level :: v3",)),
        (needs(features=AVX512), ("x86_64 :: level :: v4",)),
        (
            needs("75", (*AVX512, "avx512_vnni")),
            (
                "nvidia :: cuda_version_lower_bound :: 13.0",
                "nvidia :: sm_arch :: 75_real",
                "x86_64 :: level :: v4",
                "x86_64 :: avx512_vnni :: on",
            ),
        ),
        (
            needs("120a"),
            (
                "nvidia :: cuda_version_lower_bound :: 13.0",
                "nvidia :: sm_arch :: 120_real",
                "x86_64 :: level :: v3",
            ),
        ),
    ],
)
def test_properties_say_what_is_needed(need: Needs, properties: tuple[str, ...]) -> None:
    assert properties_of(need) == properties


def test_a_driver_that_is_enough_decides_not_the_toolkit() -> None:
    """CUDA 12.9's code without compression runs from driver 525 on, which came with CUDA 12.0."""
    old = replace(needs("86"), cuda="12.9", driver="525.60.13")
    assert "nvidia :: cuda_version_lower_bound :: 12.0" in properties_of(old)


def test_levels_are_those_of_archspec() -> None:
    from archspec.cpu import TARGETS

    brought: set[str] = set()
    for name, added in LEVELS:
        brought.update(added)
        theirs = set(TARGETS[f"x86_64_{name}"].features) - {"mmx", "sse", "sse2"}
        assert {feature.replace("abm", "lzcnt") for feature in brought} == {
            feature.replace("abm", "lzcnt") for feature in theirs
        } - {"xsave", "osxsave"}


def test_the_shared_version_sorts_above_every_label() -> None:
    """An installer takes the highest version, and only then looks at its variants."""
    recipes = sorted(file.stem for file in (ROOT / "recipes").glob("*.toml"))
    versions = [Version(plan_for(name).version) for name in recipes if name != "upstream"]
    assert len(versions) > 10
    for version in versions:
        assert Version(f"{version.public}+{SHARED}") > version


def test_the_copy_says_one_thing_everywhere(wheel: Path, copy: Path, tmp_path: Path) -> None:
    """D9, D10: file name, METADATA, dist-info, WHEEL and RECORD agree; the label beside them."""
    assert copy.name == COPY
    plain = tmp_path / "plain" / COPY.replace("-cu130.sm86.avx2.whl", ".whl")
    plain.parent.mkdir()
    plain.write_bytes(copy.read_bytes())
    said = open_artifact(plain, tmp_path / "unpacked").wheel
    assert said is not None
    assert (said.problems, said.record) == ((), ())
    assert said.infos == (INFO,)
    assert (said.name, said.version) == ("llama-cpp-python", "0.3.36+variants")
    assert said.requires == ("nvidia-cuda-runtime",)
    expected = metadata_of(wheel).replace(f"Version: {A10G}".encode(), b"Version: 0.3.36+variants")
    assert metadata_of(copy) == expected
    with ZipFile(copy) as archive:
        assert archive.testzip() is None
        assert "llama_cpp_python-0.3.36+variants.data/scripts/llama-server" in archive.namelist()


def test_variantlib_reads_variant_json(copy: Path) -> None:
    with ZipFile(copy) as archive:
        said = VariantDistInfo(archive.read(f"{INFO}/variant.json"), "cu130.sm86.avx2")
    assert {each.to_str() for each in said.variant_desc.properties} == set(
        properties_of(needs("86"))
    )


def test_variantlib_reads_variants_json(tmp_path: Path) -> None:
    some = with_variant(tiny_wheel(tmp_path, "0.3.36+cpu.any"), "cpu-any", needs(features=()))
    more = with_variant(tiny_wheel(tmp_path, A10G), "a10g", needs("86"))
    made = render(Catalog().next([*some.values(), *more.values()]))
    (body, *_) = [page.body for page in made if page.key.endswith("+variants-variants.json")]
    said = VariantsJson(json.loads(body))
    assert set(said.variants) == {"null", "cu130.sm86.avx2"}
    assert said.variants["null"].is_null_variant()
    assert said.namespace_priorities == ["nvidia", "x86_64"]


# that it is a copy


def test_the_same_bytes_whenever_it_is_made(
    wheel: Path, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is packed again: another zlib gives the same file. Times are the wheel's."""
    monkeypatch.setattr(zlib, "compressobj", None)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    os.utime(wheel, (1, 1))
    (tmp_path / "again").mkdir()
    again = variant_of(wheel, needs("86"), tmp_path / "again").file
    assert again.read_bytes() == copy.read_bytes()
    with ZipFile(wheel) as one, ZipFile(copy) as other:
        assert {each.date_time for each in other.infolist()} <= {
            each.date_time for each in one.infolist()
        }


def test_a_copy_is_a_copy(wheel: Path, copy: Path) -> None:
    prove_copy(wheel, copy)


def rewritten(copy: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with ZipFile(copy) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with ZipFile(copy, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def changed(files: dict[str, bytes]) -> None:
    files["llama_cpp/lib/libllama.so"] += b"\x90"


def dropped(files: dict[str, bytes]) -> None:
    del files["llama_cpp/lib/libllama.so"]


def added(files: dict[str, bytes]) -> None:
    files["llama_cpp/lib/libmore.so"] = b"more"


def unlabelled(files: dict[str, bytes]) -> None:
    del files[f"{INFO}/variant.json"]


def script(files: dict[str, bytes]) -> None:
    files["llama_cpp_python-0.3.36+variants.data/scripts/llama-server"] = b"#!python\n"


def other_dependency(files: dict[str, bytes]) -> None:
    files[f"{INFO}/METADATA"] = files[f"{INFO}/METADATA"].replace(b"nvidia", b"other")


def other_tag(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] += b"Tag: py3-none-any\n"


def other_label(files: dict[str, bytes]) -> None:
    files[f"{INFO}/variant.json"] = files[f"{INFO}/variant.json"].replace(b"v3", b"v1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed, "libllama.so has other bytes"),
        (dropped, "libllama.so is in one of them only"),
        (added, "libmore.so is in one of them only"),
        (unlabelled, "variant.json is in one of them only"),
        (script, "llama-server has other bytes"),
        (other_dependency, "METADATA says more than another version"),
        (other_tag, "WHEEL has other bytes"),
        (other_label, "RECORD does not say what is in it"),
    ],
)
def test_what_is_no_copy_is_refused(
    wheel: Path, copy: Path, change: Callable[[dict[str, bytes]], None], says: str
) -> None:
    rewritten(copy, lambda files: None)
    prove_copy(wheel, copy)
    rewritten(copy, change)
    with pytest.raises(Refused, match=f"{says}; publish it again"):
        prove_copy(wheel, copy)


def test_another_mode_is_refused(wheel: Path, copy: Path) -> None:
    with ZipFile(copy) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with ZipFile(copy, "w", ZIP_STORED) as archive:
        for info, content in members:
            if info.filename.endswith("libllama.so"):
                info.external_attr = 0o100644 << 16 | 1
            archive.writestr(info, content)
    with pytest.raises(Refused, match=r"libllama\.so has another mode"):
        prove_copy(wheel, copy)


def test_a_damaged_copy_is_refused(wheel: Path, copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    with ZipFile(copy) as archive:
        content[archive.getinfo("llama_cpp/lib/libllama.so").header_offset + 60] ^= 0xFF
    copy.write_bytes(content)
    with pytest.raises((Refused, BadInput), match=r"libllama\.so|cannot be read"):
        prove_copy(wheel, copy)


def test_a_wheel_without_a_label_has_no_copy(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="its version has no label"):
        variant_of(tiny_wheel(tmp_path, "0.3.36"), needs(), tmp_path)


def test_half_a_wheel_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-30])
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(BadInput, match="cannot be copied"):
        variant_of(wheel, needs("86"), into)
    assert list(into.iterdir()) == []
