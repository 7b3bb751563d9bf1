#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox==2026.10.20"]
# ///
"""The menu: one thin session per job. The work is done by `hostwheel`; state passes as files."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True

RECIPES = sorted(file.stem for file in Path("recipes").glob("*.toml") if file.stem != "upstream")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests, real builds included. Arguments go to pytest."""
    install(session, "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(default=False)
def tests_container(session: nox.Session) -> None:
    """Only the tests with real containers: needs root, docker.io, podman and debootstrap.

    What is not there is a failure, where `tests` would skip what needs it.
    """
    install(session, "test")
    argv = ("python", "-m", "pytest", "-m", "container", *session.posargs)
    session.run(*argv, env={"CI": "true"})


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format, and the workflows, without network."""
    install(session, "lint")
    workflows = map(str, sorted(Path(".github/workflows").glob("*.yml")))
    run_all(
        session,
        ("ruff", "check"),
        ("ruff", "format", "--check"),
        ("actionlint", *workflows),
        ("zizmor", "--offline", "--quiet", "--persona", "auditor", ".github"),
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as pages in dist/docs, every warning an error, every link checked."""
    install(session, "docs")
    session.run("sphinx-build", "--fail-on-warning", "--nitpicky", "-q", "docs", "dist/docs")
    session.run("python", "docs/links.py", "dist/docs")


@nox.session
def typecheck(session: nox.Session) -> None:
    """Types, strictly."""
    install(session, "typecheck")
    session.run("mypy", ".", ".github/matrix.py")


def install(session: nox.Session, group: str) -> None:
    groups = nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group)
    session.install("-e.", *groups)


def run_all(session: nox.Session, *commands: tuple[str, ...]) -> None:
    """Each of them, whatever the others find, so that a person sees all findings at once."""
    failed = set()
    for command in commands:
        try:
            session.run(*command)
        except nox.command.CommandFailed:
            failed.add(command[0])
    if failed:
        session.error(f"{', '.join(sorted(failed))}: see above")


def build_session(recipe: str) -> None:
    """Register `build_<recipe>`: build, audit, smoke, in an environment of its own."""

    def build(session: nox.Session) -> None:
        install(session, "smoke")
        session.run("hostwheel", "build", recipe, *session.posargs)
        if not {"--out", "--report"} & set(session.posargs):
            audit_product(session, recipe)
            session.run("hostwheel", "smoke", recipe)

    name = f"build_{recipe.replace('-', '_')}"
    build.__doc__ = f"Build {recipe} into out/{recipe}, audit it, and run the smoke tests on it."
    nox.session(name=name, default=False, tags=["build"])(build)


def image_session(recipe: str) -> None:
    """Register `image_<recipe>`: the container image that the recipe is built in."""

    def image(session: nox.Session) -> None:
        session.install("-e.")
        session.run("hostwheel", "image", recipe, *session.posargs)

    name = f"image_{recipe.replace('-', '_')}"
    image.__doc__ = f"Make the container image that {recipe} is built in."
    nox.session(name=name, default=False, tags=["image"])(image)


def audit_session(recipe: str) -> None:
    """Register `audit_<recipe>`."""

    def audit(session: nox.Session) -> None:
        session.install("-e.")
        audit_product(session, recipe)

    name = f"audit_{recipe.replace('-', '_')}"
    audit.__doc__ = f"Audit what lies in out/{recipe}/dist against the plan it was built by."
    nox.session(name=name, default=False, tags=["audit"])(audit)


def smoke_session(recipe: str) -> None:
    """Register `smoke_<recipe>`. Arguments go to `hostwheel smoke`."""

    def smoke(session: nox.Session) -> None:
        install(session, "smoke")
        session.run("hostwheel", "smoke", recipe, *session.posargs)

    name = f"smoke_{recipe.replace('-', '_')}"
    smoke.__doc__ = f"Test what lies in out/{recipe}/dist on this machine and on emulated CPUs."
    nox.session(name=name, default=False, tags=["smoke"])(smoke)


def audit_product(session: nox.Session, recipe: str) -> None:
    """Leave audit.json and audit.html beside build.json."""
    out = Path("out") / recipe
    wheels_first = sorted((out / "dist").glob("*"), key=lambda file: file.suffix != ".whl")
    plan = ("--plan", str(out / "build.json"), "--out", str(out))
    session.run("hostwheel", "audit", *map(str, wheels_first), *plan)


for recipe in RECIPES:
    build_session(recipe)
    image_session(recipe)
    audit_session(recipe)
    smoke_session(recipe)


@nox.session(default=False)
def publish(session: nox.Session) -> None:
    """Put every proved build of out/ into a bucket: nox -s publish -- s3://wheels/llama"""
    session.install("-e.")
    to = ("--to", *session.posargs) if session.posargs else ()
    for out in sorted(Path("out").glob("*/build.json")):
        session.run("hostwheel", "publish", str(out.parent), *to)


@nox.session(default=False)
def pins(session: nox.Session) -> None:
    """Look up the digests of the base images and write them into docker/images.toml."""
    session.install("-e.")
    session.run("hostwheel", "pins", *session.posargs)


if __name__ == "__main__":
    nox.main()
