import hashlib
import subprocess
from pathlib import Path

import pytest

from hostwheel.build.patches import apply_patches, complaints
from hostwheel.errors import BadInput, MachineLacks
from hostwheel.plan.patches import Patch, load_patches, patch_hashes, patches_for

HEAD = "Why: a test\nUpstream: not sent\nDrop when: never\n\n"
LINES = "".join(f"line {number}\n" for number in range(1, 31))
TWO_HUNKS = """\
--- a/sub/f.txt
+++ b/sub/f.txt
@@ -1,4 +1,4 @@
 line 1
-line 2
+LINE 2
 line 3
 line 4
@@ -19,5 +19,5 @@ some function
 line 19
 line 20
-line 21
+LINE 21
 line 22
 line 23
"""
NEW_FILE = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"


def patch(diff: str, name: str = "0001-what.patch") -> Patch:
    text = HEAD + diff
    return Patch(name=name, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "outer" / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "f.txt").write_text(LINES)
    return tree


def test_patches_are_loaded_in_order(tmp_path: Path) -> None:
    for name in ("0002-b.patch", "0001-a.patch", "README.md", ".hidden"):
        (tmp_path / name).write_text(HEAD + NEW_FILE)
    loaded = load_patches(tmp_path)
    assert [one.name for one in loaded] == ["0001-a.patch", "0002-b.patch"]
    assert loaded[0] == patch(NEW_FILE, "0001-a.patch")


@pytest.mark.parametrize("name", ["1-a.patch", "0001.patch", "0001-a.diff", "0001-a.patch~"])
def test_a_wrongly_named_patch_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(HEAD + NEW_FILE)
    with pytest.raises(BadInput, match=f"{name}: a patch is named"):
        load_patches(tmp_path)


@pytest.mark.parametrize("field", ["Why:", "Upstream:", "Drop when:"])
def test_a_patch_without_its_reasons_is_refused(field: str, tmp_path: Path) -> None:
    head = "".join(line for line in HEAD.splitlines(True) if not line.startswith(field))
    (tmp_path / "0001-a.patch").write_text(f"{head}{NEW_FILE}+{field} too late\n")
    with pytest.raises(BadInput, match=rf"0001-a\.patch: no line `{field}"):
        load_patches(tmp_path)
    (tmp_path / "0001-a.patch").write_text(f"{head}{field}\nSigned-off-by: me\n{NEW_FILE}")
    with pytest.raises(BadInput, match=f"no line `{field}"):
        load_patches(tmp_path)


def test_binary_or_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0001-a.patch").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        load_patches(tmp_path)
    with pytest.raises(BadInput, match="no folder of patches"):
        load_patches(tmp_path / "none")


def test_patches_apply_in_order(tree: Path) -> None:
    second = "--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-hello\n+bye\n"
    apply_patches(
        (patch(TWO_HUNKS), patch(NEW_FILE), patch(second, "0003-c.patch")), tree, upstream="1.0"
    )
    assert (tree / "new.txt").read_text() == "bye\n"
    changed = LINES.replace("line 2\n", "LINE 2\n", 1).replace("line 21", "LINE 21")
    assert (tree / "sub" / "f.txt").read_text() == changed


def test_a_patch_that_no_longer_applies_says_where(tree: Path) -> None:
    changed = LINES.replace("line 20", "other")
    (tree / "sub" / "f.txt").write_text(changed)
    with pytest.raises(BadInput) as refused:
        apply_patches((patch(TWO_HUNKS),), tree, upstream="llama-cpp-python 0.3.36")
    said = str(refused.value)
    assert "0001-what.patch does not apply to llama-cpp-python 0.3.36" in said
    assert "sub/f.txt: hunk 2: @@ -19,5 +19,5 @@ some function" in said
    assert (tree / "sub" / "f.txt").read_text() == changed


def test_context_is_not_fuzzy(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tree.parent / ".gitconfig"
    config.write_text("[apply]\n\tignoreWhitespace = change\n")
    monkeypatch.setenv("HOME", str(tree.parent))
    (tree / "sub" / "f.txt").write_text(LINES.replace("line 1\n", "line  1\n"))
    with pytest.raises(BadInput, match=r"sub/f\.txt: hunk 1: @@ -1,4"):
        apply_patches((patch(TWO_HUNKS),), tree, upstream="1.0")


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (TWO_HUNKS.replace("f.txt", "gone.txt"), r"sub/gone\.txt: No such file"),
        (TWO_HUNKS.rstrip("\n").rpartition("\n")[0] + "\n", "corrupt patch"),
        ("no diff at all\n", "No valid patches"),
        (NEW_FILE.replace("new.txt", "../new.txt"), "invalid path"),
    ],
)
def test_other_faults_are_gits_words(diff: str, why: str, tree: Path) -> None:
    with pytest.raises(BadInput, match=why):
        apply_patches((patch(diff),), tree, upstream="1.0")


def git_init(folder: Path) -> None:
    subprocess.run(("git", "init", "--quiet", str(folder)), check=True)


def test_an_enclosing_repository_does_not_matter(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_init(tree.parent)
    # Plain git, and a hook's variables even more so, would skip the files and report success.
    monkeypatch.setenv("GIT_DIR", str(tree.parent / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tree.parent))
    apply_patches((patch(TWO_HUNKS), patch(NEW_FILE)), tree, upstream="1.0")
    assert (tree / "new.txt").read_text() == "hello\n"
    assert "LINE 21" in (tree / "sub" / "f.txt").read_text()


def test_files_that_git_would_skip_are_an_error(tree: Path) -> None:
    """In a path with a colon GIT_CEILING_DIRECTORIES cannot hold, so git sees the repository."""
    inner = tree.parent / "a:b" / "tree"
    (inner / "sub").mkdir(parents=True)
    (inner / "sub" / "f.txt").write_text(LINES)
    git_init(tree.parent)
    git_diff = "diff --git a/sub/f.txt b/sub/f.txt\n" + TWO_HUNKS
    with pytest.raises(BadInput, match="skipped"):
        apply_patches((patch(git_diff),), inner, upstream="1.0")


def test_no_git_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(MachineLacks, match="apt-get install git"):
        apply_patches((patch(NEW_FILE),), tree, upstream="1.0")
    apply_patches((), tree, upstream="1.0")


def test_a_git_that_cannot_be_run_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "git").write_text("not a program")
    monkeypatch.setenv("PATH", str(tree))
    for mode, why in ((0o644, "Permission denied"), (0o755, "Exec format error")):
        (tree / "git").chmod(mode)
        with pytest.raises(MachineLacks, match=f"apt-get install git.*{why}"):
            apply_patches((patch(NEW_FILE),), tree, upstream="1.0")


def with_versions(folder: Path, line: str) -> Path:
    (folder / "0001-all.patch").write_text(HEAD + NEW_FILE)
    (folder / "0002-some.patch").write_text(f"{line}\n{HEAD}{NEW_FILE}")
    return folder


@pytest.mark.parametrize(
    ("version", "inside"),
    [
        ("0.3.29", False),
        ("0.3.30", True),
        ("0.3.36", True),
        ("0.3.36.post1", True),
        ("0.3.37rc1", True),
        ("0.4.0", False),
        ("0.3.3", False),
    ],
)
def test_a_patch_outside_its_versions_is_not_in_the_plan(
    version: str, inside: bool, tmp_path: Path
) -> None:
    folder = with_versions(tmp_path, "Versions: >=0.3.30,<0.4")
    expected = ["0001-all.patch", *(["0002-some.patch"] if inside else [])]
    assert [one.name for one in patches_for(folder, version)] == expected
    hashes = patch_hashes(folder, version)
    assert list(hashes) == expected
    digest = hashlib.sha256((folder / expected[-1]).read_bytes()).hexdigest()
    assert hashes[expected[-1]] == digest


@pytest.mark.parametrize("said", ["", "0.3.36", ">=new", ">=0.3 <0.4", ">=0.3\nVersions: <0.4"])
def test_versions_that_are_no_specifier_are_refused(said: str, tmp_path: Path) -> None:
    folder = with_versions(tmp_path, f"Versions: {said}")
    with pytest.raises(BadInput, match=r"0002-some\.patch: its `Versions:` is .*>=0\.3\.30,<0\.4"):
        patches_for(folder, "0.3.36")


def test_versions_in_the_diff_are_not_the_patchs_own(tmp_path: Path) -> None:
    (tmp_path / "0001-a.patch").write_text(f"{HEAD}{NEW_FILE}Versions: <0.1\n")
    assert [one.versions for one in load_patches(tmp_path)] == [""]


def test_a_source_of_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'latest' is no version of llama-cpp-python"):
        patches_for(with_versions(tmp_path, "Versions: <1"), "latest")


def test_complaints_leave_the_tree_as_it_was(tree: Path) -> None:
    broken = patch(NEW_FILE + TWO_HUNKS.replace("-line 21", "-line 99"))
    assert complaints(broken, tree)[0] == "sub/f.txt: hunk 2: @@ -19,5 +19,5 @@ some function"
    assert not (tree / "new.txt").exists()
    assert complaints(patch(TWO_HUNKS), tree) == ()
    assert "LINE 21" in (tree / "sub" / "f.txt").read_text()
