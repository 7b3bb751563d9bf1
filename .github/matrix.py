"""The matrix of wheels.yml, from what `nox -l --json -t build` prints.

python .github/matrix.py all <sessions.json; or names of recipes in place of `all`.
"""

import json
import sys
from collections.abc import Mapping, Sequence

from hostwheel.facts.cuda import TOOLKITS
from hostwheel.plan.command import planned
from hostwheel.plan.data import find_data
from hostwheel.plan.plan import Plan
from hostwheel.plan.recipe import recipe_names


def main(wanted: Sequence[str]) -> int:
    sessions = {session["name"] for session in json.load(sys.stdin)}
    data = find_data()
    known = {name: planned(name, data) for name in recipe_names(data.recipes)}
    names = known if list(wanted) == ["all"] else wanted
    if unknown := set(names) - set(known):
        return wrong(
            f"no recipe {', '.join(sorted(unknown))}; there are {', '.join(known)}, or all"
        )
    jobs = [job(known[name]) for name in names]
    if lacking := [job["session"] for job in jobs if job["session"] not in sessions]:
        return wrong(f"nox has no session {', '.join(map(str, lacking))}; noxfile.py makes them")
    print(json.dumps(jobs, indent=1))
    return 0


def wrong(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


def job(plan: Plan) -> Mapping[str, str | bool]:
    """What differs between the jobs. A container has no network, and so no shared cache: it is
    only for a toolkit that the registry does not have."""
    packaged = plan.cuda is None or TOOLKITS[plan.cuda.release].packaged
    return {
        "recipe": plan.recipe,
        "session": f"build_{plan.recipe.replace('-', '_')}",
        "engine": "local" if packaged else "docker",
        "avx512": any(feature.startswith("avx512") for feature in plan.features),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
