"""Save a page as text with a real Firefox, which is controlled remotely, as its menu would save the page."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.real_servers import free_port
from tests.support.waiting import wait_until

PROGRAMS = ("firefox-esr", "firefox")
#: Formatted, with absolute addresses and without frames, at the width that the menu uses.
SAVE_AS_TEXT = """const encoder = Components.utils.createDocumentEncoder("text/plain");
encoder.init(document, "text/plain", 2 | 128 | 4096);
encoder.setWrapColumn(80);
return encoder.encodeToString();"""


def saved_by_firefox(content: str) -> str | None:
    """Return the text that Firefox saves of a page, or None if it is not installed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder, remote_control(program, Path(folder)) as control:
        page = Path(folder, "page.html")
        page.write_text(content)
        control.call("WebDriver:NewSession")
        control.call("WebDriver:Navigate", url=page.as_uri())
        saved = control.call("WebDriver:ExecuteScript", script=SAVE_AS_TEXT, args=[], sandbox="system")
    text: str = saved["value"]
    return text


@contextmanager
def remote_control(program: str, folder: Path) -> Iterator[RemoteControl]:
    """Run Firefox with an empty profile and yield a connection to it."""
    port = free_port()
    (folder / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
    command = [program, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote"]
    with subprocess.Popen(
        [*command, "--profile", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with connected(port) as connection:
                yield RemoteControl(connection)
        finally:
            process.kill()


def connected(port: int) -> socket.socket:
    """Return a connection to a port of this machine, as soon as a program listens there."""
    wait_until(f"Firefox to listen at port {port}", lambda: is_open(port))
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
        return True
    return False


class RemoteControl:
    """Sends commands to Firefox (the protocol is called Marionette)."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.answers = connection.makefile("rb")
        self.read()

    def call(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its result."""
        message = json.dumps([0, 1, command, arguments]).encode()
        self.connection.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self.read()
        assert error is None, error
        return result

    def read(self) -> Any:
        """Return the next message, which follows its length and a colon."""
        length = b""
        while (byte := self.answers.read(1)) not in (b":", b""):
            length += byte
        return json.loads(self.answers.read(int(length)))
