"""A headless Chromium driven through its debugging pipe: no port, no package, no network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browsers import CHROMIUM

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)


class Page:
    """One tab. `told` holds errors and console messages as they came."""

    def __init__(self, writer: int, reader: int) -> None:
        self.writer, self.reader, self.rest, self.number = writer, reader, b"", 0
        self.session = ""
        self.told: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            block = os.read(self.reader, 1 << 20)
            if not block:
                raise RuntimeError("the browser has gone")
            self.rest += block
        line, self.rest = self.rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.told.append(json.dumps(message["params"])[:2000])
        return message

    def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def open(self, path: Path, hash: str = "", ready: str = "main[data-drawn]") -> None:
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=f"{path.resolve().as_uri()}{'#' + hash if hash else ''}")
        self.wait(
            f"document.readyState === 'complete' && document.querySelector({json.dumps(ready)}) !== null"
        )

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}: {self.told}")
            time.sleep(0.02)

    def size(self, width: int, height: int, *, mobile: bool = False, dark: bool = False) -> None:
        scale = 2 if mobile else 1
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def key(self, name: str) -> None:
        codes = {
            "Enter": 13,
            "Tab": 9,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
        }
        press = {"key": name, "code": name, "windowsVirtualKeyCode": codes[name]}
        text = {"text": "\r"} if name == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **press, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **press)

    def move(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def shot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser with its own profile in `folder`, ended by its own handle."""
    to_read, writer = os.pipe()
    reader, to_write = os.pipe()

    def pipes() -> None:  # the browser reads from 3 and writes to 4
        low, high = os.dup(to_read), os.dup(to_write)
        os.dup2(low, 3)
        os.dup2(high, 4)

    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder}"],
        preexec_fn=pipes,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Page(writer, reader)
    finally:
        os.close(writer)
        os.close(reader)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
