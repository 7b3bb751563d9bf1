"""Recipes: the good ones load, and each kind of slip is named with what would fit."""

import shutil
from pathlib import Path

import pytest

from hostwheel.errors import BadInput
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
    gpu = {"a10g", "t4", "l4", "a100", "h100", "rtx50"}
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
