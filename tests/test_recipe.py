"""Recipes: the good ones load, and each kind of slip is named with what would fit."""

import os
import shutil
from pathlib import Path

import pytest

from hostwheel.errors import BadInput
from hostwheel.plan.data import file_hashes, find_data
from hostwheel.plan.recipe import load_recipe, recipe_names

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """A copy of the recipes that a test may spoil."""
    return Path(shutil.copytree(CHECKOUT / "recipes", tmp_path / "recipes"))


def refusal(recipes: Path, text: str) -> str:
    (recipes / "mine.toml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_recipe("mine", recipes)
    return str(caught.value)


def host_refusal(recipes: Path, old: str, new: str) -> str:
    file = recipes / "hosts" / "aws-g5.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return refusal(recipes, 'host = "aws-g5"\ncuda = "13.0"\n')


def test_every_recipe_of_the_issue_is_there() -> None:
    gpu = {"a10g", "a10g-cu12", "t4", "l4", "a100", "h100", "rtx50"}
    cpu = {"cpu-any", "cpu-avx2", "cpu-sse42", "cpu-avx", "cpu-avx512"}
    assert set(recipe_names(CHECKOUT / "recipes")) == gpu | cpu


def test_a_recipe_can_be_a_file_anywhere(recipes: Path, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.toml"
    file.write_text('host = "aws-g5"\ncuda = "13.0"\ndraft = true\n')
    recipe = load_recipe(str(file), recipes)
    assert (recipe.name, recipe.cuda, recipe.draft) == ("elsewhere", "13.0", True)


def test_an_unknown_recipe_names_the_nearest(recipes: Path) -> None:
    with pytest.raises(BadInput, match=r"no recipe 'a10'.*did you mean 'a10g'"):
        load_recipe("a10", recipes)


def test_an_unknown_key_names_file_key_and_nearest(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g5"\ncudda = "13.0"\n')
    assert "mine.toml: cudda" in said
    assert "did you mean 'cuda'?" in said


def test_a_wrong_type_names_the_type(recipes: Path) -> None:
    assert "cuda is 13.0; expected a string" in refusal(recipes, 'host = "aws-g5"\ncuda = 13.0\n')
    said = refusal(recipes, 'host = "aws-g5"\ndraft = "yes"\n')
    assert "draft is 'yes'; expected true or false" in said


def test_a_missing_host_is_named(recipes: Path) -> None:
    assert "host is missing; expected a string" in refusal(recipes, 'cuda = "13.0"\n')


def test_an_unknown_host_names_the_nearest(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g55"\n')
    assert "host is 'aws-g55'" in said
    assert "did you mean 'aws-g5'?" in said


def test_an_unknown_toolkit_names_the_nearest(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g5"\ncuda = "13.1"\n')
    assert "cuda is '13.1'; did you mean '13.0'?" in said


def test_an_unknown_source_names_the_pinned_ones(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g5"\nsource = "0.3.37"\n')
    assert "source is '0.3.37'" in said
    assert "0.3.36" in said


def test_a_cuda_recipe_needs_a_host_with_a_gpu(recipes: Path) -> None:
    said = refusal(recipes, 'host = "x86-64-v3"\ncuda = "13.0"\n')
    assert "host 'x86-64-v3' has no GPU" in said


def test_variants_and_cuda_do_not_go_together(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g5"\ncuda = "13.0"\nvariants = true\n')
    assert "variants and cuda are both set" in said


def test_a_compute_capability_that_the_toolkit_lacks_names_the_nearest(recipes: Path) -> None:
    said = host_refusal(recipes, 'compute = "86"', 'compute = "61"')
    assert "no sm_61" in said
    assert "the nearest that it has is sm_75" in said


def test_a_compute_capability_is_digits(recipes: Path) -> None:
    said = host_refusal(recipes, 'compute = "86"', 'compute = "8.6"')
    assert "gpu.compute is '8.6'; expected something like '86'" in said


def test_a_driver_below_the_toolkits_floor_is_refused(recipes: Path) -> None:
    said = host_refusal(recipes, 'driver = "580.65.06"', 'driver = "570.10"')
    assert "driver 570.10" in said
    assert "needs 580.65.06 or newer" in said


def test_an_unknown_feature_names_the_nearest(recipes: Path) -> None:
    said = host_refusal(recipes, '"avx2"', '"axv2"')
    assert "aws-g5.toml: cpu.features has 'axv2'" in said
    assert "did you mean 'avx2'?" in said


def test_a_feature_without_its_prerequisite_is_refused(recipes: Path) -> None:
    said = host_refusal(recipes, '"avx", ', "")
    assert "has 'avx2' without 'avx'" in said


def test_an_unknown_key_in_a_host_is_named_with_its_table(recipes: Path) -> None:
    said = host_refusal(recipes, "driver =", "drivers =")
    assert "aws-g5.toml: gpu.drivers is not a key" in said
    assert "did you mean 'driver'?" in said


def test_a_file_that_is_not_toml_is_named(recipes: Path) -> None:
    assert "mine.toml: is not TOML" in refusal(recipes, "host: aws-g5\n")


def test_a_file_that_is_not_there_is_named(recipes: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.toml: cannot be read: No such file"):
        load_recipe("nowhere.toml", recipes)


def test_a_pinned_archive_needs_a_whole_sha256(recipes: Path) -> None:
    upstream = recipes / "upstream.toml"
    upstream.write_text(upstream.read_text().replace('sha256 = "832d', 'sha256 = "832'))
    said = refusal(recipes, 'host = "aws-g5"\n')
    assert "upstream.toml: source.0.3.36.sha256" in said
    assert "64 hexadecimal digits" in said


ODD_NAMES = ("..", "a;b", "a$ORIGIN", "a\nb", "a" * 65, "\udcff", ".a", "a b", "")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_paths_or_cmake_could_misread_is_refused(name: str, recipes: Path) -> None:
    file = recipes / f"{name}.toml"
    file.write_text('host = "aws-g5"\n')
    with pytest.raises(BadInput, match="rename the file: letters, digits"):
        load_recipe(str(file), recipes)


def test_a_hidden_file_is_no_recipe(recipes: Path) -> None:
    (recipes / ".#a10g.toml").symlink_to("nowhere")
    assert recipe_names(recipes) == recipe_names(CHECKOUT / "recipes")


@pytest.mark.parametrize("version", ["0.3.x", "0.03", "3", "../x", "٣.1"])
def test_a_pinned_version_is_a_release(version: str, recipes: Path) -> None:
    upstream = recipes / "upstream.toml"
    upstream.write_text(upstream.read_text().replace('"0.3.36"', f'"{version}"'))
    said = refusal(recipes, 'host = "aws-g5"\n')
    assert f"upstream.toml: source.{version} is no release; expected a version like 0.3.36" in said


@pytest.mark.parametrize("epoch", ["0", "315532799", "4102444801", "0x" + "f" * 5000])
def test_an_epoch_is_one_that_zip_can_hold(epoch: str, recipes: Path) -> None:
    upstream = recipes / "upstream.toml"
    upstream.write_text(upstream.read_text().replace("1790820708", epoch))
    said = refusal(recipes, 'host = "aws-g5"\n')
    assert "source.0.3.36.epoch is " in said
    assert "expected 315532800 to 4102444800, Unix seconds of 1980 to 2100" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host = " + "[" * 5000, "nested too deeply"),
        ("host = " + "1" * 5000, "is not TOML: Exceeds the limit"),
        ("cuda = 0x" + "f" * 5000, "cuda is too large to show; expected a string"),
        ("cuda = [" + "1," * 5000 + "]", "…; expected a string"),
    ],
)
def test_what_is_too_much_for_python_is_refused(text: str, said: str, recipes: Path) -> None:
    assert said in refusal(recipes, text)


def test_a_byte_order_mark_is_let_through(recipes: Path) -> None:
    (recipes / "mine.toml").write_text('host = "aws-g5"\n', encoding="utf-8-sig")
    assert load_recipe("mine", recipes).host.name == "aws-g5"


@pytest.mark.timeout(20)
def test_only_regular_files_are_read(recipes: Path) -> None:
    os.mkfifo(recipes / "pipe.toml")
    (recipes / "folder.toml").mkdir()
    (recipes / "device.toml").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "device"):
        with pytest.raises(BadInput, match="it is a folder, pipe or device; give a file"):
            load_recipe(name, recipes)


def test_locks_that_cannot_be_read_are_refused(recipes: Path) -> None:
    (recipes / "locks" / "x.txt").mkdir()
    with pytest.raises(BadInput, match=r"locks/x\.txt: cannot be read"):
        file_hashes(recipes / "locks", "*.txt")
    shutil.rmtree(recipes / "locks")
    with pytest.raises(BadInput, match="locks: cannot be read: No such file"):
        file_hashes(recipes / "locks", "*.txt")


def test_a_working_directory_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BadInput, match="the working directory: cannot be read: No such file"):
        find_data()


def test_a_recipes_folder_that_may_not_be_looked_into_is_refused(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may look anywhere, so the refusal is made up."""

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(BadInput, match=r"upstream\.toml: cannot be read: Permission denied"):
        find_data(recipes)


def test_a_draft_without_cuda_means_nothing(recipes: Path) -> None:
    said = refusal(recipes, 'host = "aws-g5"\ndraft = true\n')
    assert "mine.toml: draft is true without cuda; " in said


def test_variants_need_a_host_without_features(recipes: Path) -> None:
    said = refusal(recipes, 'host = "x86-64-v3"\nvariants = true\n')
    assert "variants is true, but host 'x86-64-v3' has CPU features" in said
    assert "take host 'x86-64'" in said


def test_a_feature_is_named_once(recipes: Path) -> None:
    said = host_refusal(recipes, '"avx2"', '"avx2", "avx2"')
    assert "cpu.features has 'avx2' twice" in said


def test_an_empty_gpu_table_lacks_its_name(recipes: Path) -> None:
    host = recipes / "hosts" / "x86-64.toml"
    host.write_text(f"{host.read_text()}\n[gpu]\n")
    said = refusal(recipes, 'host = "x86-64"\n')
    assert "x86-64.toml: gpu.name is missing; expected a string" in said


@pytest.mark.parametrize("title", ["", "  ", "a\\nb", "a\\u001b[31mb", "a\\u2028b"])
def test_a_title_is_one_line_of_text(title: str, recipes: Path) -> None:
    host = recipes / "hosts" / "x86-64.toml"
    host.write_text(host.read_text().replace("Any x86-64 CPU", title))
    said = refusal(recipes, 'host = "x86-64"\n')
    assert "title is " in said
    assert "expected one line of text without control characters" in said
