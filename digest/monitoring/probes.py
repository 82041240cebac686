"""Check the broker, mail servers, disks and proxies that the service depends on, each within seconds."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import smtplib
import ssl
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote, urlsplit

from digest import links
from digest.delivery import transports
from digest.delivery.transports.mail_url import MailServer
from digest.site_profile import Site

TIMEOUT_SECONDS = 5.0  #: for a server to answer
LOW_BYTES, LOW_SHARE = 500_000_000, 0.1  #: of free space; less than either is worth a warning
FULL_BYTES = 50_000_000  #: of free space; a morning's letters may need more


def broker_problem(url: str) -> str | None:
    """Return what is wrong with the broker at `url`, or None if it answers."""
    try:
        answer = ping_broker(url)
    except OSError as error:
        return f"it does not answer ({error.strerror or error})"
    return None if answer == "+PONG" else f"it says: {answer[:80]}"


def ping_broker(url: str) -> str:
    """Return "+PONG" if the broker at `url` answers a PING, else its error; raise OSError if it does not answer."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        with redis.Redis.from_url(
            probe_url(url),
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            client.ping()
    except redis.AuthenticationError as error:
        return f"NOAUTH {error}"  # redis-py leaves out the code
    except (redis.ConnectionError, redis.TimeoutError) as error:
        reason = error.__context__
        raise reason if isinstance(reason, OSError) else OSError(str(error)) from error
    except redis.RedisError as error:
        return str(error)
    return "+PONG"


def probe_url(url: str) -> str:
    """Return a broker URL as redis-py spells it, without Celery's options."""
    return url.partition("?")[0].replace("redis+socket:", "unix:", 1)


def mail_problem(url: str) -> str | None:
    """Return what is wrong with the mail transport, or None if it is ready; of several servers one must answer."""
    parts = urlsplit(url)
    if parts.scheme in {"maildir", "eml"}:
        return folder_problem(Path(unquote(parts.path)))
    found = [server_problem(each) for each in transports.split_urls(url)]
    return None if None in found else found[0]


def server_problem(url: str) -> str | None:
    """Return what is wrong with one mail server, or None if it answers EHLO; nothing is sent."""
    try:
        connect_to_mail_server(MailServer.from_url(url)).close()
    except (OSError, smtplib.SMTPException) as error:
        return f"it does not answer ({error})"
    return None


def folder_problem(folder: Path) -> str | None:
    """Return why a mail folder cannot be written to, or None; a missing one needs a parent that can be."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return None if os.access(existing, os.W_OK | os.X_OK) else f"{existing} cannot be written to"


def connect_to_mail_server(server: MailServer) -> smtplib.SMTP:
    """Return a connection to a mail server that has answered EHLO; with smtps its certificate is checked."""
    if server.scheme == "smtps":
        tls = ssl.create_default_context(cafile=server.cafile)
        client: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=TIMEOUT_SECONDS, context=tls
        )
    else:
        kind = smtplib.LMTP if server.scheme == "lmtp" else smtplib.SMTP
        client = kind(server.path or server.host, server.port, timeout=TIMEOUT_SECONDS)
    try:
        client.ehlo_or_helo_if_needed()
    except BaseException:
        with suppress(OSError):
            client.close()
        raise
    return client


def log_in(server: MailServer) -> tuple[smtplib.SMTP, list[str]]:
    """Connect as for a letter, with TLS and password; return the connection and the steps that worked."""
    client, steps = connect_to_mail_server(server), ["answers"]
    try:
        if server.starttls:
            client.starttls(context=ssl.create_default_context(cafile=server.cafile))
            client.ehlo()
        if isinstance(client.sock, ssl.SSLSocket):
            steps.append(f"{client.sock.version()}, certificate checked")
        if server.user:
            client.login(server.user, server.password)
            steps.append("password accepted")
    except BaseException:
        client.close()
        raise
    return client, steps


# ── disks ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """A file system that the service writes to, named by a folder on it."""

    folder: Path
    free: int  #: bytes that can still be written
    size: int

    @property
    def is_low(self) -> bool:
        """Return whether the operator should free some space."""
        return self.free <= max(LOW_BYTES, self.size * LOW_SHARE)

    @property
    def is_full(self) -> bool:
        """Return whether writes will fail soon."""
        return self.free <= FULL_BYTES

    def __str__(self) -> str:
        return f"{self.free / 10**6:,.0f} MB ({self.free / max(1, self.size):.0%}) free in {self.folder}"


def disks(folders: Iterable[Path]) -> list[Disk]:
    """Return the file systems of these folders, each once; for a missing folder, that of its nearest parent."""
    found = {}
    for folder in folders:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if (device := existing.stat().st_dev) not in found:
            usage = shutil.disk_usage(existing)
            found[device] = Disk(folder=folder, free=usage.free, size=usage.total)
    return list(found.values())


# ── proxies in front of the web server ──────────────────────────────────────────────────────────

MIRROR_PURPOSE = "mirror"  #: the purpose of the token in the probe's URL

#: An address for documentation only (RFC 5737), sent as X-Forwarded-For: what follows it there, proxies added.
FORWARDED_FOR_MARKER = "192.0.2.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyProbe:
    """The reply to a probe of our public URL: an HTTP status, and two counts if it was 200."""

    status: int
    redirects_to: str = ""  #: the redirect's target, if any
    proxies_seen: int = 0  #: proxies that the request passed
    proxies_trusted: int = 0  #: DIGEST_PROXIES of the web server


def probe_proxies(site: Site, now: datetime) -> ProxyProbe:
    """Request our public URL and return how the request looked to the web server; raise OSError if none answers."""
    parts = urlsplit(site.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    token = links.sign_token(site, MIRROR_PURPOSE, f"{now.timestamp():.0f}-{token_hex(8)}")
    with closing(kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)) as connection:
        connection.request(
            "GET", f"{parts.path}/mirror/{token}", headers={"X-Forwarded-For": FORWARDED_FOR_MARKER}
        )
        try:
            answer = connection.getresponse()
            content = answer.read(1000)
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP ({type(error).__name__})") from error
    if answer.status != http.HTTPStatus.OK:
        return ProxyProbe(status=answer.status, redirects_to=answer.getheader("location", ""))
    try:
        reply = json.loads(content)
        return ProxyProbe(
            status=answer.status, proxies_seen=int(reply["seen"]), proxies_trusted=int(reply["proxies"])
        )
    except (ValueError, KeyError, TypeError):
        return ProxyProbe(status=http.HTTPStatus.NOT_FOUND)


def hops_behind_marker(chains: Iterable[str]) -> int:
    """Return how many proxies have added to the X-Forwarded-For of a probe."""
    hops = [hop.strip() for hop in ",".join(chains).split(",") if hop.strip()]
    return len(hops) - hops.index(FORWARDED_FOR_MARKER) - 1 if FORWARDED_FOR_MARKER in hops else len(hops)
