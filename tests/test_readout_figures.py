"""The readout's figures in the README and in docstrings are those that bench/ recorded."""

import json
import re
from typing import Any

from hostwheel.readout import LlamaCppBackend
from tests.builds import CHECKOUT

README = (CHECKOUT / "README.md").read_text()


def recorded(name: str) -> Any:
    return json.loads((CHECKOUT / "bench" / name).read_text())


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def test_the_readme_tells_how_far_each_kind_of_weights_is_from_transformers() -> None:
    exact = [
        row for row in recorded("parity_smollm2.json")["compared"] if row["settings"] == "F32 cache"
    ]
    assert [row["weights"] for row in exact] == ["F32", "F16", "Q8_0"]
    for row in exact:
        (cells,) = re.findall(rf"^\| {row['weights']} \| (.*) \| (.*) \| (.*) \|$", README, re.M)
        assert cells[0] == row["argmax"].replace("/", " of ")
        for cell, where in zip(cells[1:], ("vocabulary", "labels"), strict=True):
            assert abs(float(cell) / row[where]["largest"] - 1) < 0.05


def test_the_readme_tells_what_transformers_does_faster() -> None:
    found = recorded("readout.json")
    ten, short = found["ten permutations"], found["64 short prompts"]
    seconds = [
        ten[name]["wall_s"]
        for name in ("score_shared", "plain", "transformers", "transformers, shared prefix")
    ] + [short[name]["wall_s"] for name in ("plain", "transformers")]
    told = one_line(README.split("## Read next-token log-probabilities")[1].split("\n## ")[0])
    assert re.findall(r"([\d.]+) s\b", told) == [f"{each:.1f}" for each in seconds]


def test_the_docstring_tells_how_far_the_shared_path_is_from_the_plain_one() -> None:
    found = recorded("readout.json")["shared against plain, largest difference of log p"]
    told = one_line(LlamaCppBackend.score_shared.__doc__)
    said = re.search(
        r"is (\S+) with F32 weights, (\S+) with F16 and (\S+) with Q8_0 \((\S+) ", told
    )
    assert said
    settings = ("F32, F32 cache", "F16, F32 cache", "Q8_0, F32 cache")
    for number, setting in zip(
        said.groups(), (*settings, "Q8_0, F16 cache, FlashAttention"), strict=True
    ):
        digits = number.split("e")[0].lstrip("0.").replace(".", "")
        assert f"{found[setting]:.{len(digits)}g}" == f"{float(number):.{len(digits)}g}"
    assert f"in Q8_0 by up to {found['Q8_0, F32 cache']:.2f}" in one_line(README)
    assert "one n_batch" in one_line(LlamaCppBackend.__doc__)
