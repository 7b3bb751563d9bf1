"""hostwheel-capture.pyz: the capture modules as one file that Python 3.8 and newer runs."""

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hostwheel.errors import MachineLacks
from hostwheel.facts.isa import PREREQUISITES
from hostwheel.plan.files import output_file

PACKAGE = Path(__file__).parents[1]
COPIED = (
    "__init__.py",
    "facts/__init__.py",
    "facts/cpuid.py",
    "facts/libc.py",
    "user/__init__.py",
    *(f"user/capture_{part}.py" for part in ("gpu", "limits", "machine", "main", "text")),
)
MAIN = """\
import sys

if sys.version_info < (3, 8):
    sys.exit("hostwheel-capture.pyz needs Python 3.8 or newer, this is " + sys.version.split()[0])

from hostwheel.user.capture_main import main

sys.exit(main())
"""
SHEBANG = b"#!/usr/bin/env python3\n"
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes each time


def write_pyz(path: Path) -> None:
    """Write it beside, then rename; MachineLacks where that cannot be."""
    place = output_file(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".hostwheel-capture-", dir=place.parent) as folder:
            fresh = Path(folder) / place.name
            fresh.write_bytes(pyz())
            fresh.chmod(0o755)
            fresh.replace(place)
    except OSError as error:
        raise MachineLacks(f"cannot write {path}: {error.strerror}; name another") from None


def pyz() -> bytes:
    content = io.BytesIO()
    content.write(SHEBANG)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members().items():
            info = zipfile.ZipInfo(name, DATE)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def members() -> Mapping[str, str]:
    """facts/isa.py itself needs a newer Python; the capture needs one table of it."""
    copied = {f"hostwheel/{name}": (PACKAGE / name).read_text("utf-8") for name in COPIED}
    table = f"PREREQUISITES = {dict(PREREQUISITES)!r}\n"
    return {"__main__.py": MAIN, **copied, "hostwheel/facts/isa.py": table}
