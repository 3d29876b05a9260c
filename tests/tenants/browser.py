"""A real Chromium, driven by the WebDriver protocol over plain HTTP."""

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.looking import free_port

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb"),
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
TAB, ENTER = "\ue004", "\ue007"


class Browser:
    """One window."""

    def __init__(self, port: int, profile: str) -> None:
        self._base = f"http://127.0.0.1:{port}"
        chrome = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "acceptInsecureCerts": True, "goog:chromeOptions": chrome}
        wanted["goog:loggingPrefs"] = {"browser": "ALL"}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{made['sessionId']}"

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise LookupError(json.load(error)["value"]["message"]) from None

    def go(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self._ask("GET", "/url"))

    def find(self, css: str, seconds: float = 15) -> str:
        """An element, when it is there."""
        asked = {"using": "css selector", "value": css}
        return str(until(lambda: self._ask("POST", "/element", asked)[ELEMENT], seconds))

    def element(self, css: str) -> dict[str, str]:
        """One, as a script takes it."""
        return {ELEMENT: self.find(css)}

    def click(self, css: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/click", {})

    def type(self, css: str, text: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def text(self, css: str = "body") -> str:
        return str(self._ask("GET", f"/element/{self.find(css)}/text"))

    def role(self, css: str) -> tuple[str, str]:
        """What a screen reader is told: the role and the name."""
        found = self.find(css)
        answers = (self._ask("GET", f"/element/{found}/{what}") for what in ("computedrole", "computedlabel"))
        role, label = map(str, answers)
        return role, label

    def reads(self, text: str, css: str = "body", seconds: float = 20) -> None:
        """Wait until it says so."""
        until(lambda: text in self.text(css) or _fail(f"{text!r} is not in {self.text(css)!r}"), seconds)

    def run(self, script: str, *words: object) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(words)})

    def press(self, *keys: str) -> None:
        """On whatever has the focus."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.tell("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, scheme: str) -> None:
        self.tell("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def tell(self, command: str, words: Mapping[str, object]) -> Any:
        """A command of the browser's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": words})

    def complaints(self) -> list[str]:
        """What it wrote to its console: a policy that was violated, a script that failed."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def shot(self, name: str) -> None:
        """A picture, for those who want to see."""
        where = os.environ.get("RINGFENCE_SHOTS")
        if where:
            Path(where, f"{name}.png").write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    @contextlib.contextmanager
    def tabs(self) -> Iterator[Callable[[], None]]:
        """More tabs, each before the others, until the first is again."""
        first = self._ask("GET", "/window")
        made = []

        def one() -> None:
            made.append(self._ask("POST", "/window/new", {"type": "tab"})["handle"])
            self._ask("POST", "/window", {"handle": made[-1]})
            self.tell("Page.bringToFront", {})

        try:
            yield one
        finally:
            for handle in made:
                self._ask("POST", "/window", {"handle": handle})
                self._ask("DELETE", "/window")
            self._ask("POST", "/window", {"handle": first})
            self.tell("Page.bringToFront", {})

    def close(self) -> None:
        self._ask("DELETE", "")


def _fail(what: str) -> bool:
    raise LookupError(what)


def until(look: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + 10 * seconds  # on a busy machine
    while True:
        try:
            return look()
        except LookupError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    port = free_port()
    words = ["chromedriver", f"--port={port}", "--silent"]
    quiet = subprocess.DEVNULL
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen(words, stdout=quiet, stderr=quiet, cwd="/") as driver,
    ):
        try:
            until(lambda: _is_up(port), 20)
            browser = Browser(port, profile)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


def _is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=30) as answer:
            return bool(json.load(answer)["value"]["ready"]) or _fail("not ready")
    except OSError as error:
        raise LookupError(str(error)) from None
