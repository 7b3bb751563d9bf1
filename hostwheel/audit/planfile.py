"""A plan read back from the JSON that `hostwheel plan --json` prints, or from build.json."""

import dataclasses
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from hostwheel.errors import BadInput
from hostwheel.plan.files import read_file
from hostwheel.plan.plan import Plan

SOURCES = "expected what `hostwheel plan RECIPE --json` prints, or a build.json"


def read_plan(file: Path) -> Plan:
    """The plan in a file; BadInput when it is none, or when its hash does not hold."""
    try:
        content = json.loads(read_file(file))
        plan = revived(Plan, content.get("plan", content))
        said = content.get("plan_hash", content.get("hash"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise BadInput(f"{file}: holds no plan of this hostwheel ({problem}); {SOURCES}") from None
    if said != plan.hash:
        raise BadInput(f"{file}: says plan hash {said}, its content has {plan.hash}; {SOURCES}")
    assert isinstance(plan, Plan)
    return plan


def revived(kind: Any, value: Any) -> Any:
    """The inverse of `plain`: JSON as a value of this type. TypeError, KeyError where it is not."""
    origin, parts = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: revived(hints[name], value[name]) for name in hints})
    if origin is types.UnionType:
        return None if value is None else revived(parts[0], value)
    if origin is tuple:
        return tuple(revived(parts[0], item) for item in expected(list, value))
    if origin is Mapping:
        pairs = expected(dict, value).items()
        return {revived(parts[0], key): revived(parts[1], item) for key, item in pairs}
    return expected(kind, value)


def expected(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{str(value)[:40]!r} where {kind.__name__} was expected")
    return value
