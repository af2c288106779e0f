"""Headless Chromium, driven by its DevTools protocol through two pipes."""

import json
import os
import select
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.programs import program
from support.run import LONGEST_S, wait_for

_FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)
_READ_BYTES: Final = 1 << 16
HEIGHT: Final = 900


class Page:
    """A page in a browser, with everything that it requests and everything that goes wrong in it.

    Attributes:
        requested: The URLs of its requests.
        wrong: Errors, warnings, violations of its policy and other messages of its console.
    """

    def __init__(self, browser: "_Browser") -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    @property
    def requested(self) -> list[str]:
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]

    @property
    def wrong(self) -> list[str]:
        thrown = [event["exceptionDetails"]["text"] for event in self._events("Runtime.exceptionThrown")]
        logged = [event["entry"]["text"] for event in self._events("Log.entryAdded")]
        return thrown + logged + [str(event["args"]) for event in self._events("Runtime.consoleAPICalled")]

    def show(self, url: str, *, width: int = 1280, scheme: str = "light") -> None:
        """Loads a page in a window of this width, for users who prefer this color scheme."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        assert "errorText" not in self._call("Page.navigate", url=url)
        wait_for(lambda: bool(self.value("document.readyState === 'complete'")))

    def value(self, expression: str) -> Any:
        """Returns the value of an expression in the page."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key)

    def shoot(self, file: Path) -> None:
        """Writes a picture of the whole page."""
        picture = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(b64decode(picture["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]


class _Browser:
    def __init__(self, commands: int, replies: int) -> None:
        self._commands = commands
        self._replies = replies
        self._read = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + LONGEST_S
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._replies], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not respond"
            read = os.read(self._replies, _READ_BYTES)
            assert read, "the browser has ended"
            self._read += read
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def chromium(directory: Path) -> Iterator[Page]:
    """Runs the browser with a profile in this directory, and yields an empty page."""
    command = program("chromium", "chromium")
    (commands_in, commands), (replies, replies_out) = os.pipe(), os.pipe()
    # The browser reads descriptor 3 and writes to descriptor 4.
    start = f'exec "$0" "$@" 3<&{commands_in} 4>&{replies_out}'
    with (
        (directory / "chromium.log").open("wb") as log,
        subprocess.Popen(
            ["/bin/bash", "-c", start, command, *_FLAGS, f"--user-data-dir={directory / 'profile'}", "about:blank"],
            pass_fds=(commands_in, replies_out),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        ) as process,
    ):
        os.close(commands_in)
        os.close(replies_out)
        try:
            yield Page(_Browser(commands, replies))
        finally:
            process.kill()
            os.close(commands)
            os.close(replies)
