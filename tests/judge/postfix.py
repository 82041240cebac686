"""Run a private Postfix with its own directories and loopback ports, and remove it afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until

NOWHERE: Mapping[str, int] = {}

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = relay.example
mydestination =
alias_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtp_tls_security_level = none
smtp_host_lookup = native
smtputf8_enable = no
maximal_queue_lifetime = 0
bounce_queue_lifetime = 60
virtual_mailbox_domains = {inbound_domain}
virtual_transport = lmtp:inet:127.0.0.1:{inbound_port}
transport_maps = inline:{{ {transports} }}
relayhost = [127.0.0.1]:{relay_port}
"""

MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
lmtp unix - - n - - lmtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


@contextmanager
def running(
    *,
    port: int,
    relay_port: int,
    inbound_domain: str,
    inbound_port: int,
    mailboxes: Mapping[str, int] = NOWHERE,
) -> Iterator[Path]:
    """Run Postfix: it relays everything to one port, and hands our own domain to another over LMTP.

    `mailboxes` are further domains with the ports that take their mail over LMTP.
    """
    folder = Path(tempfile.mkdtemp(prefix="digest-judge-postfix-"))
    folder.chmod(0o755)
    (folder / "main.cf").write_text(
        MAIN.format(
            folder=folder,
            inbound_domain=inbound_domain,
            inbound_port=inbound_port,
            relay_port=relay_port,
            transports=", ".join(
                f"{domain}=lmtp:inet:127.0.0.1:{there}"
                for domain, there in {"unused.invalid": 24, **mailboxes}.items()
            ),
        )
    )
    (folder / "master.cf").write_text(MASTER.format(port=port))
    for name in ("queue", "data"):
        (folder / name).mkdir()
    os.chown(folder / "data", pwd.getpwnam("postfix").pw_uid, -1)
    try:
        told = control(folder, "start")
        wait_for(port, told, folder)
        yield folder / "log"
    finally:
        control(folder, "stop")
        shutil.rmtree(folder, ignore_errors=True)


def control(folder: Path, word: str) -> str:
    """Start or stop our Postfix, and return its output."""
    said = folder / f"{word}.txt"
    with said.open("wb") as output:  # a file: its daemons would keep a pipe open for ever
        subprocess.run(
            ["postfix", "-c", str(folder), word],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=30, check=False,
        )  # fmt: skip
    return said.read_text()


def wait_for(port: int, told: str, folder: Path) -> None:
    """Wait until it listens, or raise AssertionError with its output."""

    def is_listening() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    try:
        wait_until(f"a server at port {port}", is_listening)
    except AssertionError as error:
        log = folder / "log"
        error.add_note(told + (log.read_text() if log.exists() else ""))
        raise
