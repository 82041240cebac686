"""Run a private Dovecot whose mailboxes accept mail over LMTP and apply Sieve rules."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.judge.postfix import wait_for

CONF = """
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
ssl = no
protocols = lmtp
listen = 127.0.0.1
auth_username_format = %Ln
mail_location = maildir:~/mail
mail_plugins = $mail_plugins
first_valid_uid = 1
passdb {{
  driver = static
  args = nopassword=y
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/home/%n allow_all_users=yes
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {port}
  }}
}}
protocol lmtp {{
  mail_plugins = $mail_plugins sieve
  postmaster_address = postmaster@mailbox.example
}}
plugin {{
  sieve = file:{folder}/rules/%n.sieve
}}
"""


@dataclass(frozen=True, kw_only=True)
class Mailboxes:
    """The mailboxes of one domain."""

    folder: Path

    def mails(self, name: str) -> list[bytes]:
        """Return the messages in a user's inbox."""
        return [path.read_bytes() for path in (self.folder / "home" / name / "mail" / "new").glob("*")]

    def log(self) -> str:
        """Return Dovecot's log."""
        return (self.folder / "log").read_text(errors="replace")


@contextmanager
def running(dovecot: str, *, port: int, rules: Mapping[str, str]) -> Iterator[Mailboxes]:
    """Run Dovecot with these users' Sieve rules."""
    folder = Path(tempfile.mkdtemp(prefix="digest-judge-dovecot-"))
    folder.chmod(0o755)
    owner = pwd.getpwnam("nobody")
    for name in ("run", "home", "rules"):
        (folder / name).mkdir()
        os.chown(folder / name, owner.pw_uid, owner.pw_gid)
    (folder / "run").chmod(0o755)
    for name, rule in rules.items():
        (folder / "rules" / f"{name}.sieve").write_text(rule)
    conf = folder / "dovecot.conf"
    conf.write_text(CONF.format(folder=folder, user=owner.pw_uid, group=owner.pw_gid, port=port))
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen([dovecot, "-F", "-c", str(conf)], stdout=output, stderr=output)
    try:
        wait_for(port, (folder / "output.txt").read_text(), folder)
        yield Mailboxes(folder=folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)
