"""Who built a file from what: an in-toto Statement v1 with a SLSA provenance v1 predicate.

The same evidence gives the same bytes. Times are in it as far as evidence has them: those of the
build's steps are in build.json, whose hash names the invocation.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hostwheel.artifact.facts import Contents
from hostwheel.errors import Refused

NAME = "statement.json"  # among the evidence of a file
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:hostwheel:build:1"
BUILDER = "urn:hostwheel:builder:"
DIGEST = re.compile(r"(?P<name>[^\s@]+)@sha256:(?P<sha256>[0-9a-f]{64})")
SBOM = "hostwheel.cdx.json"  # wherever it lies in a wheel or archive
MEDIA = {
    ".cdx.json": "application/vnd.cyclonedx+json",
    ".json": "application/json",
    ".html": "text/html",
}

Resource = dict[str, Any]
"""in-toto's ResourceDescriptor: `name`, `uri`, `digest`, `mediaType`, as far as known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What a statement says: file name → sha256 of what it is of, and of what came beside it."""

    subjects: Mapping[str, str]
    byproducts: Mapping[str, str]
    recipe: str
    plan_hash: str
    source: str


def statement(
    subjects: Mapping[str, str], build: Mapping[str, Any], byproducts: Mapping[str, str]
) -> bytes:
    """`build` is build.json; the others are file name → sha256, SBOM among them.

    A wheel's variant copy is a second subject: all of it but dist-info is the wheel's. Refused
    where build.json does not have what a statement says.
    """
    try:
        predicate = {
            "buildDefinition": definition(build),
            "runDetails": details(build["plan"], byproducts),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"build.json does not say all that a statement does ({type(error).__name__}: {error});"
            " build it with this hostwheel"
        ) from None
    content = {
        "_type": TYPE,
        "subject": [resource(name, sha256) for name, sha256 in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def resource(name: str, sha256: str) -> Resource:
    return {"name": name, "digest": {"sha256": sha256}}


def definition(build: Mapping[str, Any]) -> Mapping[str, Any]:
    plan = build["plan"]
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "recipe": plan["recipe"],
            "host": plan["host"]["name"],
            "upstreamVersion": plan["source"]["version"],
            "planHash": build["plan_hash"],
        },
        "internalParameters": {
            "label": plan["label"],
            "llamaCppCommit": plan["source"]["llama_cpp_commit"],
            "sourceDateEpoch": plan["source"]["epoch"],
            "engine": plan["engine"]["name"],
            "image": plan["engine"]["image"],
            "base": plan["engine"]["base"],
        },
        "resolvedDependencies": list(dependencies(build)),
    }


def dependencies(build: Mapping[str, Any]) -> Iterator[Resource]:
    """What it was built from and with. Packages have no digest here: the locks hold theirs."""
    plan, url = build["plan"], build["plan"]["source"]["url"]
    yield {**resource(url.rpartition("/")[2], plan["source"]["sha256"]), "uri": url}
    for name, sha256 in plan["patches"].items():
        yield resource(f"patches/{name}", sha256)
    for name, sha256 in plan["locks"].items():
        yield resource(f"recipes/locks/{name}", sha256)
    yield {"name": "gcc", "uri": f"pkg:generic/gcc@{quote(build['compiler'])}"}
    for name, version in (build["toolkit"] or {}).items():
        yield {"name": name, "uri": f"pkg:pypi/{name}@{quote(version)}"}
    if base := DIGEST.fullmatch(plan["engine"]["base"] or ""):
        yield {**resource(base["name"], base["sha256"]), "uri": f"docker://{base['name']}"}


def details(plan: Mapping[str, Any], byproducts: Mapping[str, str]) -> Mapping[str, Any]:
    tool, _, version = plan["builder"].partition(" ")
    return {
        "builder": {"id": BUILDER + plan["engine"]["name"], "version": {tool: version}},
        "metadata": {"invocationId": f"sha256:{byproducts['build.json']}"},
        "byproducts": [
            {**resource(name, sha256), "mediaType": media_type(name)}
            for name, sha256 in sorted(byproducts.items())
        ],
    }


def media_type(name: str) -> str:
    return next((kind for end, kind in MEDIA.items() if name.endswith(end)), "text/plain")


def sbom_hashes(contents: Contents) -> Mapping[str, str]:
    """Name → sha256 of the SBOM in an unpacked wheel or archive; empty where there is none."""
    named = {each.name.rpartition("/")[2]: each.sha256 for each in contents.members}
    return {SBOM: named[SBOM]} if SBOM in named else {}


def read_statement(payload: bytes) -> Statement:
    """Refused for what is no statement of ours."""
    try:
        content = json.loads(payload)
        predicate = content["predicate"]
        defined = predicate["buildDefinition"]
        kinds = (content["_type"], content["predicateType"], defined["buildType"])
        if kinds != (TYPE, PREDICATE, BUILD_TYPE):
            raise Refused(f"is of the kind {' '.join(map(str, kinds))}, expected {BUILD_TYPE}")
        return Statement(
            subjects=hashes(content["subject"]),
            byproducts=hashes(predicate["runDetails"]["byproducts"]),
            recipe=str(defined["externalParameters"]["recipe"]),
            plan_hash=str(defined["externalParameters"]["planHash"]),
            source=str(defined["resolvedDependencies"][0]["uri"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"cannot be read: {type(error).__name__}: {error}") from None


def hashes(resources: list[Resource]) -> Mapping[str, str]:
    return {str(each["name"]): str(each["digest"]["sha256"]) for each in resources}
