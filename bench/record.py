"""Add figures to bench/build.json: python bench/record.py out/a10g "cold, empty caches"."""

import json
import os
import platform
import sys
from pathlib import Path

from hostwheel.facts.cpuid import Cpu

BENCH = Path(__file__).parent / "build.json"


def main(out: str, how: str) -> None:
    evidence = json.loads((Path(out) / "build.json").read_text())
    recorded = json.loads(BENCH.read_text()) if BENCH.is_file() else []
    recorded.append(
        {
            "command": f"hostwheel build {evidence['recipe']}",
            "how": how,
            "cpu": Cpu().brand,
            "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "plan_hash": evidence["plan_hash"],
            "compiler_cache": evidence["compiler_cache"],
            "steps": evidence["steps"],
            "artifacts": evidence["artifacts"],
        }
    )
    BENCH.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
