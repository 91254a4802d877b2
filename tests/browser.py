"""A real browser for tests and screenshots: chromium without a window, controlled over a pipe (DevTools)."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

ANSWER_S = 60.0
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip
CODES = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}


class BrowserError(Exception):
    """The browser refused a command, or did not answer it."""


def chromium() -> str:
    """The program; a test without one is skipped, except where CI is to have it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        assert not os.environ.get("CI"), "CI needs chromium (Debian package chromium)"
        pytest.skip("no headless browser is installed (Debian package chromium)")
    return path


class Browser:
    """One tab, with a profile of its own in `folder`. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        received, reported = os.pipe(), os.pipe()  # theirs to read, theirs to write
        # The program reads descriptor 3 and writes 4; the shell puts Bellwether's there.
        script = f'exec "$0" "$@" 3<&{received[0]} 4>&{reported[1]}'
        command = ["bash", "-c", script, chromium(), *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"]
        with (folder.parent / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(command, pass_fds=(received[0], reported[1]), stdout=log, stderr=log)
        os.close(received[0])
        os.close(reported[1])
        self._write, self._read = received[1], reported[0]

    def __enter__(self) -> Self:
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def size(self, width: int, height: int, *, phone: bool = False, scale: float = 1.0) -> None:
        """In CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}
        self._ask("Emulation.setDeviceMetricsOverride", **metrics)

    def scheme(self, name: str) -> None:
        """ "light" or "dark"."""
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url: str, until: str) -> None:
        """Another document, even where only what follows the # differs."""
        self._ask("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self._ask("Page.navigate", url=url)
        self.until(until)

    def reload(self, until: str) -> None:
        self.run("window.old = true")
        self._ask("Page.reload")
        self.until(f"!window.old && ({until})")

    def run(self, script: str) -> Any:
        """The value of an expression. Raises BrowserError with what it throws."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2_000])
        return answer["result"].get("value")

    def until(self, script: str, limit_s: float = ANSWER_S) -> None:
        """Waits for an expression to become true."""
        deadline = time.monotonic() + limit_s
        while not self._holds(script):
            if time.monotonic() > deadline:
                raise BrowserError(
                    f"not within {limit_s:.0f} s: {script}; the page says {self.run('document.body.innerText')[:500]}"
                )
            time.sleep(0.05)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.run(script))
        except BrowserError:
            return False  # the document is being replaced

    def text(self, selector: str = "body") -> str:
        """What people read there, blanks as one."""
        return " ".join(str(self.run(f"document.querySelector({json.dumps(selector)}).innerText")).split())

    def press(self, *keys: str) -> None:
        """Keys of the keyboard by name ("Enter"), or characters."""
        for key in keys:
            plain = {"key": key, "windowsVirtualKeyCode": CODES[key]} if key in CODES else {"key": key, "text": key}
            extra = {"text": "\r"} if key == "Enter" else {}
            self._ask("Input.dispatchKeyEvent", type="keyDown", **plain, **extra)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        answer = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            result: dict[str, Any] = answer["result"]
            return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise BrowserError("the browser has ended" if ready else "the browser does not answer")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message
