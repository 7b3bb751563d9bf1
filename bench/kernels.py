"""Is the GPU code of two builds the same, kernel by kernel?

python bench/kernels.py OLD NEW > bench/kernels.json

OLD and NEW are folders of cubins, from `cuobjdump -xelf all libggml-cuda.so`. Names of static
kernels hold a hash of their file, so code is also looked up without its name.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import lief


def kernels(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.glob("*.cubin")):
        elf = lief.ELF.parse(str(file))
        assert elf is not None, file
        for section in elf.sections:
            if str(section.name).startswith(".text."):
                yield str(section.name), bytes(section.content)


def compared(old: Path, new: Path) -> dict[str, object]:
    before, after = list(kernels(old)), list(kernels(new))
    known = {hashlib.sha256(code).digest() for _, code in before}
    names = {name for name, _ in before}
    fresh = [(name, code) for name, code in after if hashlib.sha256(code).digest() not in known]
    return {
        "command": "python bench/kernels.py OLD NEW",
        "kernels": {"old": len(before), "new": len(after)},
        "new kernels whose code the old library has": len(after) - len(fresh),
        "others, by number of instructions (16 bytes each)": {
            str(size): sum(len(code) // 16 == size for _, code in fresh)
            for size in sorted({len(code) // 16 for _, code in fresh})
        },
        "others whose name the old library has": sum(name in names for name, _ in fresh),
    }


if __name__ == "__main__":
    lief.logging.disable()
    print(json.dumps(compared(Path(sys.argv[1]), Path(sys.argv[2])), indent=1))
