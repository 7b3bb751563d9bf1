"""Who built this, from what, and is it that? A bucket, a file with its statement, or a bundle."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from hostwheel.errors import BadInput
from hostwheel.plan.files import check_file
from hostwheel.publish.generations import HINT
from hostwheel.trust.ssh import Signers
from hostwheel.trust.statement import NAME
from hostwheel.user.verify_artifact import Given, artifact_findings
from hostwheel.user.verify_bucket import bucket_findings
from hostwheel.user.verify_bundle import bundle_findings
from hostwheel.user.verify_files import LIMIT_BYTES, is_bundle
from hostwheel.user.verify_finding import Finding, Outcome, Read
from hostwheel.user.verify_place import served, stored


def verify(where: str, signers: Signers | None) -> Iterator[Finding]:
    """BadInput for what is none of the three; MachineLacks without network or ssh-keygen."""
    if urlsplit(where).scheme in ("http", "https"):
        return bucket_findings(served(where), signers)
    if "://" in where:
        return bucket_findings(stored(where), signers)
    path = Path(where)
    if not path.exists():
        raise BadInput(f"{path}: not there; give a bucket's URL, a wheel or archive, or a bundle")
    if not path.is_dir():
        check_file(path)
    if is_bundle(path):
        return bundle_findings(path, signers)
    if path.is_dir():
        check_bucket(path)
        return bucket_findings(stored(where), signers)
    lacking = f"neither {path.name}.{NAME} nor {NAME} is beside it: fetch it from the bucket"
    unsigned: tuple[Outcome, str] = ("refused", f"nothing shows what it is: {lacking}")
    given = Given(name=path.name, file=path, read=beside(path), unsigned=unsigned)
    return artifact_findings(given, signers)


def check_bucket(folder: Path) -> None:
    if not (folder / HINT).is_file():
        raise BadInput(
            f"{folder}: neither a bundle (bundle.json) nor a bucket ({HINT}); of a build in out/,"
            " give a file of its dist/ after publishing"
        )


def beside(path: Path) -> Read:
    """Evidence named after the file (x.whl.statement.json), or as the bucket names it."""

    def read(name: str) -> bytes | None:
        places = (path.with_name(f"{path.name}.{name}"), path.with_name(name))
        found = next((each for each in places if each.is_file()), None)
        if found and found.stat().st_size > LIMIT_BYTES:
            raise BadInput(f"{found}: larger than {LIMIT_BYTES:,} bytes; fetch it anew")
        return found.read_bytes() if found else None

    return read
