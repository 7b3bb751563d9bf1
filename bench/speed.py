"""Three servers get the same request in turn: ours, a native build's, xllamacpp's.

python -m bench.speed OURS NATIVE PYTHON MODEL > bench/speed.json

OURS and NATIVE are folders of libraries with llama-server in them (smoke/speed.py makes the second
one); PYTHON is one that has xllamacpp from the registry.
"""

import json
import os
import platform
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from hostwheel.facts.cpuid import Cpu
from smoke.speed import PAIRS, Speed, native_features, ratios

PORTS = {"ours": 18471, "native": 18472, "xllamacpp": 18473}
WORDS = "The history of the town begins with a bridge, a mill and a quarrel about both. "
ASKED = {"prompt": WORDS * 3, "max_tokens": 16, "temperature": 0, "cache_prompt": False}

XLLAMACPP = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.n_ctx, params.n_parallel = 512, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
time.sleep(3600)
"""


def command(name: str, where: str, model: str) -> Sequence[str]:
    port = str(PORTS[name])
    if name == "xllamacpp":
        return (where, "-c", XLLAMACPP, model, port)
    program = f"{where}/llama-server"
    limits = ("-c", "512", "-np", "1", "-t", "1", "--offline")
    return (program, "-m", model, "--port", port, *limits)


@contextmanager
def served(argv: Sequence[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(port, process)
        yield
    finally:
        process.terminate()
        process.wait()


def wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        assert process.poll() is None, process.args
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no answer on port {port}")


def asked(name: str) -> Speed:
    address = f"http://127.0.0.1:{PORTS[name]}/v1/completions"
    request = urllib.request.Request(address, json.dumps(ASKED).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=600) as reply:
        timings = json.load(reply)["timings"]
    return Speed(prompt=timings["prompt_per_second"], generation=timings["predicted_per_second"])


def version(python: str) -> str:
    argv = (python, "-c", "from importlib.metadata import version; print(version('xllamacpp'))")
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def rounds() -> Sequence[Mapping[str, Speed]]:
    """PAIRS rounds, each beginning with another server; the first, unmeasured one warms up."""
    names = list(PORTS)
    measured = []
    for at in range(PAIRS + 1):
        turn = names[at % 3 :] + names[: at % 3]
        measured.append({name: asked(name) for name in turn})
    return measured[1:]


def main(ours: str, native: str, python: str, model: str) -> None:
    with ExitStack() as stack:
        for name, where in zip(PORTS, (ours, native, python), strict=True):
            stack.enter_context(served(command(name, where, model), PORTS[name]))
        before = os.getloadavg()[0]
        measured = rounds()
    against = {
        other: ratios([(each["ours"], each[other]) for each in measured])
        for other in ("native", "xllamacpp")
    }
    figures = {
        "command": "python -m bench.speed OURS NATIVE PYTHON MODEL",
        "cpu": Cpu().brand,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(before, 1),
        "system": platform.platform(),
        "native_features": sorted(native_features()),
        "xllamacpp": version(python),
        "threads": 1,
        "rounds": PAIRS,
        "ours_over": {
            other: {what: str(ratio) for what, ratio in found.items()}
            for other, found in against.items()
        },
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
