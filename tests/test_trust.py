"""Statements, envelopes and SHA256SUMS: what is signed, and that ssh-keygen agrees."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.trust.dsse import pae, read_envelope, seal
from hostwheel.trust.keyfiles import check_allowed, check_revoked
from hostwheel.trust.ssh import SUMS_NAMESPACE, Key, Seal, check, check_can_sign, read_key, sign
from hostwheel.trust.statement import read_statement, statement
from hostwheel.trust.sums import read_sums, sums
from tests.plans import plan_for
from tests.signed import key, public

SHA = "ab" * 32


def build(recipe: str, **engine: str) -> dict[str, object]:
    plan = plan_for(recipe).json()
    plan["engine"].update(engine)
    toolkit = {"nvidia-cuda-nvcc": "13.0.88"} if plan["cuda"] else None
    return {"plan": plan, "plan_hash": plan["hash"], "compiler": "12.2.0", "toolkit": toolkit}


def stated(recipe: str = "a10g", **engine: str) -> bytes:
    byproducts = {"build.json": SHA, "hostwheel.cdx.json": SHA}
    return statement({"x.whl": SHA}, build(recipe, **engine), byproducts)


def test_a_statement_is_in_totos_and_slsas() -> None:
    """in-toto Statement v1, SLSA provenance v1: their required fields."""
    said = json.loads(stated())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert said["subject"] == [{"name": "x.whl", "digest": {"sha256": SHA}}]
    defined, details = (said["predicate"][name] for name in ("buildDefinition", "runDetails"))
    assert defined["externalParameters"]["recipe"] == "a10g"
    assert details["builder"]["id"] == "urn:hostwheel:builder:local"
    assert details["metadata"] == {"invocationId": f"sha256:{SHA}"}
    kinds = {each["name"]: each["mediaType"] for each in details["byproducts"]}
    assert kinds["hostwheel.cdx.json"] == "application/vnd.cyclonedx+json"


def test_a_statement_names_all_that_it_was_built_from() -> None:
    plan = plan_for("a10g")
    image = f"quay.io/base@sha256:{SHA}"
    said = json.loads(stated(name="podman", image="hostwheel:1", base=image))
    found = {
        each["name"]: each for each in said["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    source = found["llama_cpp_python-0.3.36.tar.gz"]
    assert (source["uri"], source["digest"]["sha256"]) == (plan.source.url, plan.source.sha256)
    for name, sha256 in plan.patches.items():
        assert found[f"patches/{name}"]["digest"]["sha256"] == sha256
    for name, sha256 in plan.locks.items():
        assert found[f"recipes/locks/{name}"]["digest"]["sha256"] == sha256
    assert found["nvidia-cuda-nvcc"]["uri"] == "pkg:pypi/nvidia-cuda-nvcc@13.0.88"
    assert found["gcc"]["uri"] == "pkg:generic/gcc@12.2.0"
    assert found["quay.io/base"]["digest"]["sha256"] == SHA
    assert all({"uri", "digest", "content"} & set(each) for each in found.values())


def test_a_statement_is_read_back_and_the_same_evidence_gives_the_same() -> None:
    assert stated() == stated()
    said = read_statement(stated())
    assert (said.subjects, said.recipe) == ({"x.whl": SHA}, "a10g")
    assert said.byproducts == {"build.json": SHA, "hostwheel.cdx.json": SHA}


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"no JSON", b'"text"'])
def test_what_is_no_statement(payload: bytes) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        read_statement(payload)


def test_a_statement_of_another_tool() -> None:
    with pytest.raises(Refused, match=r"https://example.org/build, expected urn:hostwheel"):
        read_statement(stated().replace(b"urn:hostwheel:build:1", b"https://example.org/build"))


def test_a_build_that_does_not_say_what_it_was_built_with() -> None:
    said = build("a10g")
    del said["compiler"]
    with pytest.raises(Refused, match="build it with this hostwheel"):
        statement({"x.whl": SHA}, said, {"build.json": SHA})


def test_the_encoding_before_signing_is_dsses() -> None:
    """The test vector of the DSSE protocol, version 1.0.2."""
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("http://example.com/HelloWorld", b"hello world") == expected


def test_ssh_keygen_alone_can_check_an_envelope(tmp_path: Path) -> None:
    """As docs/trust.md shows it, without anything of ours."""
    content = json.loads(seal(b"payload", key()))
    (signature,) = content["signatures"]
    armor = f"-----BEGIN SSH SIGNATURE-----\n{signature['sig']}\n-----END SSH SIGNATURE-----\n"
    (tmp_path / "sig").write_text(armor)
    signed = pae(content["payloadType"], base64.b64decode(content["payload"]))
    argv = ("ssh-keygen", "-Y", "check-novalidate", "-n", "statement@hostwheel")
    done = subprocess.run(
        (*argv, "-s", str(tmp_path / "sig")), input=signed, capture_output=True, check=True
    )
    assert signature["keyid"].encode() in done.stdout


def test_an_envelope_is_read_back_and_the_same_payload_gives_the_same() -> None:
    text = seal(b"payload", key())
    assert text == seal(b"payload", key())
    envelope = read_envelope(text)
    assert envelope.payload == b"payload"
    assert check(envelope.seal) == read_key(public())


@pytest.mark.parametrize(("kind", "bits"), [("rsa", "2048"), ("ecdsa", "256")])
def test_other_kinds_of_keys(kind: str, bits: str, tmp_path: Path) -> None:
    argv = ("ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", "", "-f", str(tmp_path / "key"))
    subprocess.run(argv, check=True)
    made = sign(b"data", tmp_path / "key", SUMS_NAMESPACE)
    found = check(Seal(data=b"data", signature=made, namespace=SUMS_NAMESPACE))
    assert found == read_key(tmp_path / "key.pub")
    assert found.kind == kind.upper()


def test_a_key_in_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the public key is a file; so it is with a FIDO key or a forwarded agent."""
    socket = tmp_path / "agent"
    with subprocess.Popen(
        ("ssh-agent", "-D", "-a", str(socket)), stdout=subprocess.DEVNULL
    ) as agent:
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
            for _ in range(100):
                done = subprocess.run(("ssh-add", "-q", str(key())), stderr=subprocess.DEVNULL)
                if done.returncode == 0:
                    break
            alone = Path(shutil.copy(public(), tmp_path / "alone.pub"))
            made = sign(b"data", alone, SUMS_NAMESPACE)
        finally:
            agent.kill()
    assert check(Seal(data=b"data", signature=made, namespace=SUMS_NAMESPACE)) == read_key(alone)


def test_a_key_that_cannot_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    alone = Path(shutil.copy(public(), tmp_path / "alone.pub"))
    with pytest.raises(BadInput, match="cannot sign"):
        sign(b"data", alone, SUMS_NAMESPACE)
    with pytest.raises(BadInput, match="no such file"):
        read_key(tmp_path / "none")


def test_without_ssh_keygen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineLacks, match="apt-get install openssh-client"):
        sign(b"data", key(), SUMS_NAMESPACE)


def test_a_key_is_told_by_kind_and_fingerprint() -> None:
    assert str(Key(kind="ED25519", fingerprint="SHA256:x")) == "ED25519 key SHA256:x"


def test_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "llama+cpu.whl").write_bytes(b"x")
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    (tmp_path / "SHA256SUMS").write_bytes(sums({"llama+cpu.whl": sha256}))
    subprocess.run(("sha256sum", "--strict", "-c", "SHA256SUMS"), cwd=tmp_path, check=True)
    assert read_sums((tmp_path / "SHA256SUMS").read_bytes()) == {"llama+cpu.whl": sha256}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SHA}  a\n{SHA}  a\n", "line 2 is there twice"),
        (f"{SHA} *a\n", "line 1 has another form"),
        (f"{SHA}  /etc/passwd\n", "another form"),
        ("abc  a\n", "another form"),
        (f"{SHA}  \n", "another form"),
    ],
)
def test_sums_of_another_form(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read_sums(text.encode())


# what a verifier is given


PUBLIC = public().read_text().strip()


@pytest.mark.parametrize(
    "text",
    [
        f"me@x {PUBLIC}",
        f'# of us\n\nme@x,you@x namespaces="*@hostwheel" {PUBLIC}\n',
        f'*@x cert-authority,namespaces="a b" {PUBLIC}',
        f"no line\nme@x {PUBLIC}",
        f'"release team"\t{PUBLIC.replace(" ", "   ", 1)}\n',
    ],
)
def test_signers_of_whom_there_are_some(text: str, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text(text)
    check_allowed(tmp_path / "signers")


@pytest.mark.parametrize(
    "text", ["", "# nobody\n", "nonsense\n", "me@x ssh-ed25519 AAAAgarbage\n", PUBLIC, "me@x\n"]
)
def test_signers_of_whom_there_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text(text)
    with pytest.raises(BadInput, match="names no signer: a line is `NAME"):
        check_allowed(tmp_path / "signers")


def test_a_revocation_list_is_keys_or_ssh_keygens(tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    for text in ("", f"# of us\n\n{PUBLIC}\n", f"  # of us\n {PUBLIC.replace(' ', '  ')}\n"):
        file.write_text(text)
        check_revoked(file)
    for text in ("nonsense\n", f"{PUBLIC}\nme@x {PUBLIC}\n"):
        file.write_text(text)
        with pytest.raises(BadInput, match=r"line \d is no public key"):
            check_revoked(file)
    file.unlink()
    subprocess.run(("ssh-keygen", "-q", "-k", "-f", str(file), str(public())), check=True)
    check_revoked(file)


# a key that cannot sign


@pytest.fixture
def nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent, and no terminal on which ssh-keygen could ask."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")


@pytest.mark.usefixtures("nobody_to_ask")
def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    file = tmp_path / "key"
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(file))
    subprocess.run(argv, check=True)
    with pytest.raises(BadInput, match=rf"passphrase.*; `ssh-add {file}` .* {file}\.pub"):
        check_can_sign(file)


@pytest.mark.usefixtures("nobody_to_ask")
def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    file = Path(shutil.copy(key(), tmp_path / "open"))
    file.chmod(0o644)
    with pytest.raises(BadInput, match=rf"0644 for .* too open; .*: chmod 600 {file}$"):
        check_can_sign(file)
    file.chmod(0o600)
    assert check_can_sign(file) == read_key(public())


@pytest.mark.usefixtures("nobody_to_ask")
def test_what_is_no_private_key(tmp_path: Path) -> None:
    alone = Path(shutil.copy(public(), tmp_path / "alone.pub"))
    with pytest.raises(BadInput, match="this is no private key"):
        check_can_sign(alone)
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(BadInput, match=r"no SSH key: .*; `ssh-keygen -t ed25519"):
        check_can_sign(tmp_path / "text")
