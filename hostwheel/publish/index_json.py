"""The JSON of the index: PEPs 691 (pages), 700 (sizes, upload times, versions), 714 (metadata)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hostwheel.publish.links import Link, versions
from hostwheel.publish.page import API_VERSION

META = {"api-version": API_VERSION}


def list_json(projects: Iterable[str]) -> bytes:
    return written({"meta": META, "projects": [{"name": name} for name in projects]})


def project_json(project: str, links: Sequence[Link]) -> bytes:
    return written(
        {
            "meta": META,
            "name": project,
            "versions": versions(links),
            "files": [file(each) for each in links],
        }
    )


def file(link: Link) -> Mapping[str, Any]:
    said: dict[str, Any] = {
        "filename": link.filename,
        "url": link.url,
        "hashes": {"sha256": link.sha256},
        "size": link.size,
        "upload-time": link.uploaded,
        # None cannot be told from a reason that is empty, so that becomes True.
        "yanked": False if link.yanked is None else link.yanked or True,
    }
    if link.requires_python:
        said["requires-python"] = link.requires_python
    if link.metadata:
        said["core-metadata"] = {"sha256": link.metadata}
    return said


def written(page: Mapping[str, Any]) -> bytes:
    return (json.dumps(page, separators=(",", ":")) + "\n").encode()
