"""A headless Chromium that opens a page as a person with some screen would, and tells about it.

Spoken to over its pipe (the DevTools protocol: JSON, each message ended by a zero byte).
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

FLAGS = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe"
TROUBLE = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


@dataclass(kw_only=True, slots=True)
class Tab:
    """The one tab. `events` is what the browser said on its own since the last `open`."""

    to: IO[bytes]
    of: IO[bytes]
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0

    def call(self, method: str, **params: object) -> dict[str, Any]:
        self.sent += 1
        message: dict[str, object] = {"id": self.sent, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.sent:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def receive(self) -> dict[str, Any]:
        read = bytearray()
        while (byte := self.of.read(1)) != b"\0":
            assert byte, "Chromium is gone"
            read += byte
        message: dict[str, Any] = json.loads(read)
        return message

    def open(self, page: Path, *, width: int, scheme: str = "light") -> None:
        """Load `page` on a screen of `width` pixels in the colour `scheme` that is asked for."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    def requested(self) -> list[str]:
        """The addresses of all that the page made the browser load, itself included."""
        asked = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in asked]

    def complaints(self) -> list[dict[str, Any]]:
        """What a person would find in the console."""
        return [event["params"] for event in self.events if event.get("method") in TROUBLE]

    def screenshot(self, file: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Tab]:
    """A browser with its profile in `folder`. Without the program the test fails."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("chromium is not here: apt-get install chromium")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # bash: dash knows no descriptors above 9. The last pipe's end is above 4, so none is lost.
    moved = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    argv = (
        "bash",
        "-c",
        moved,
        program,
        *FLAGS.split(),
        f"--user-data-dir={folder}",
        "about:blank",
    )
    with (
        os.fdopen(to_write, "wb", buffering=0) as to,
        os.fdopen(from_read, "rb") as of,
        (folder / "chromium.log").open("wb") as log,
        subprocess.Popen(
            argv, pass_fds=(to_read, from_write), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as running,
    ):
        os.close(to_read)
        os.close(from_write)
        try:
            yield first_tab(Tab(to=to, of=of))
        finally:
            running.kill()


def first_tab(browser: Tab) -> Tab:
    targets = browser.call("Target.getTargets")["targetInfos"]
    page = next(target["targetId"] for target in targets if target["type"] == "page")
    attached = browser.call("Target.attachToTarget", targetId=page, flatten=True)
    browser.session = attached["sessionId"]
    for domain in ("Page", "Network", "Log", "Runtime"):
        browser.call(f"{domain}.enable")
    return browser
