"""A Report out of audit.json, as `plan.plain` wrote it there."""

from collections.abc import Mapping
from typing import Any

from hostwheel.artifact.facts import Image
from hostwheel.audit.result import FileReport, Finding, Fit, Floor, Report


def read_report(content: Mapping[str, Any]) -> Report:
    """Of one artifact. KeyError or TypeError for what is no report of this hostwheel."""
    floor = content["floor"]
    return Report(
        **{
            **content,
            "floor": Floor(**floor) if floor else None,
            "members": tuple(tuple(each) for each in content["members"]),
            "files": tuple(read_file(each) for each in content["files"]),
            "findings": tuple(Finding(**each) for each in content["findings"]),
            "fits": tuple(
                Fit(**{**each, "reasons": tuple(each["reasons"])}) for each in content["fits"]
            ),
        }
    )


def read_file(content: Mapping[str, Any]) -> FileReport:
    return FileReport(
        **{
            **content,
            "images": tuple(Image(**each) for each in content["images"]),
            "needed": tuple(content["needed"]),
            "runpath": tuple(content["runpath"]),
        }
    )
