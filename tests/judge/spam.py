"""Run rspamd for the judges, with its own folders and ports and without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.real_servers import free_port
from tests.support.waiting import wait_until

CONFIG = Path("/etc/rspamd")
LOCAL = {
    "worker-proxy.inc": "enabled = false;",
    "worker-fuzzy.inc": "enabled = false;",
    "hfilter.conf": "enabled = false;",  # asks the DNS for our host's name, and there is no DNS here
    "options.inc": 'dns { nameserver = ["127.0.0.1:1"]; timeout = 0.05s; retransmits = 1; }',
    "logging.inc": 'type = "console"; level = "error";',
}
#: The parameters with which a server would ask rspamd about a letter that it got from the digest's host.
ENVELOPE = ("--ip", "192.0.2.10", "--hostname", "digest.example.org", "--from", "digest@digest.example.org")


class Rspamd:
    """A running rspamd."""

    def __init__(self, client: str, port: int):
        self.command = [client, "-h", f"127.0.0.1:{port}", *ENVELOPE, "--json", "symbols"]

    def symbols(self, message: bytes) -> dict[str, float]:
        """Return the symbols found in a message, with their points."""
        done = subprocess.run(self.command, input=message, capture_output=True, timeout=60, check=False)
        said = done.stdout.decode(errors="replace")
        start = said.find("{")
        found = json.loads(said[start:]) if start >= 0 else {}
        return {name: symbol["score"] for name, symbol in found.get("symbols", {}).items()}


@contextmanager
def running(server: str, client: str, folder: Path) -> Iterator[Rspamd]:
    """Run rspamd below `folder`, and end it afterwards."""
    config, kept = folder / "conf", folder / "kept"
    shutil.copytree(CONFIG, config)
    kept.mkdir()
    (config / "local.d").mkdir(exist_ok=True)
    port = free_port()
    ports = {"worker-normal.inc": port, "worker-controller.inc": free_port()}
    binds = {name: f'bind_socket = "127.0.0.1:{number}";' for name, number in ports.items()}
    for name, text in (LOCAL | binds).items():
        (config / "local.d" / name).write_text(text)
    shutil.chown(kept, "_rspamd", "_rspamd")
    places = {"CONFDIR": config, "LOCAL_CONFDIR": config, "DBDIR": kept, "RUNDIR": kept, "LOGDIR": kept}
    command = [server, "-u", "_rspamd", "-g", "_rspamd", "-f", "-c", str(config / "rspamd.conf")]
    command += [f"--var={name}={place}" for name, place in places.items()]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            made = Rspamd(client, port)
            wait_until("rspamd", lambda: bool(made.symbols(b"Subject: hello\r\n\r\nhello\r\n")))
            yield made
        finally:
            process.terminate()
            process.wait()
