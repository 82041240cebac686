"""Probes: do the servers we stand on answer? They are asked in their own protocol, and briefly."""

from __future__ import annotations

import http.client
import json
import os
import smtplib
import socket
import ssl
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote, urlsplit

from digest import links, transport
from digest.links import Site
from digest.transport.servers import Server

PATIENCE = 5.0  #: seconds that a server may take to answer


def broker_trouble(url: str) -> str | None:
    """Return what is wrong with the broker at `url`, or None where it answers."""
    try:
        answer = ask_broker(url)
    except OSError as error:
        return f"it does not answer ({error.strerror or error})"
    return None if answer == "+PONG" else f"it says: {answer[:80]}"


def ask_broker(url: str) -> str:
    """Return what the broker at `url` answers to a PING, in its own protocol (RESP)."""
    parts = urlsplit(url)
    commands = [["PING"]]
    if parts.password:
        who = [unquote(parts.username)] if parts.username else []
        commands.insert(0, ["AUTH", *who, unquote(parts.password)])
    with connected(url) as connection:
        connection.sendall(b"".join(map(spelled, commands)))
        with connection.makefile("r", encoding="utf-8", errors="replace") as answers:
            replies = [answers.readline().strip() for _ in commands]
    return replies[-1]


def spelled(command: Sequence[str]) -> bytes:
    """Return a command as RESP has it: each part with its length, so that a password may be anything."""
    parts = [part.encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def connected(url: str) -> socket.socket:
    """Return a connection to where a broker URL points: a socket file, a port, a port behind TLS."""
    parts = urlsplit(url)
    if parts.scheme in {"redis+socket", "unix"}:
        return connected_to_file(parts.path)
    address = (parts.hostname or "localhost", parts.port or 6379)
    connection = socket.create_connection(address, timeout=PATIENCE)
    if parts.scheme == "rediss":
        return ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname)
    return connection


def connected_to_file(path: str) -> socket.socket:
    """Return a connection to a socket file."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def mail_trouble(url: str) -> str | None:
    """Return what is wrong with where mail goes, or None where it is ready; of several servers one will do."""
    parts = urlsplit(url)
    if parts.scheme in {"maildir", "eml"}:
        return folder_trouble(Path(unquote(parts.path)))
    troubles = [server_trouble(each) for each in transport.parted(url)]
    return None if None in troubles else troubles[0]


def server_trouble(url: str) -> str | None:
    """Return what is wrong with one mail server, or None where it says hello; nothing is sent."""
    try:
        greeted(Server.from_url(url)).close()
    except (OSError, smtplib.SMTPException) as error:
        return f"it does not answer ({error})"
    return None


def folder_trouble(folder: Path) -> str | None:
    """Return why a Maildir cannot be written to, or None; one that is not there yet can be made."""
    standing = next(path for path in (folder, *folder.parents) if path.exists())
    return None if os.access(standing, os.W_OK | os.X_OK) else f"{standing} cannot be written to"


def greeted(server: Server) -> smtplib.SMTP:
    """Return a conversation with a mail server that has said hello, its certificate checked where TLS comes first."""
    if server.scheme == "smtps":
        trust = ssl.create_default_context(cafile=server.cafile)
        client: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=PATIENCE, context=trust)
    else:
        kind = smtplib.LMTP if server.scheme == "lmtp" else smtplib.SMTP
        client = kind(server.path or server.host, server.port, timeout=PATIENCE)
    try:
        client.ehlo_or_helo_if_needed()
    except BaseException:
        with suppress(OSError):
            client.close()
        raise
    return client


def logged_in(server: Server) -> tuple[smtplib.SMTP, list[str]]:
    """Go as far as the first letter would, TLS and password included; return the conversation and the steps."""
    client, steps = greeted(server), ["answers"]
    try:
        if server.starttls:
            client.starttls(context=ssl.create_default_context(cafile=server.cafile))
            client.ehlo()
        if isinstance(client.sock, ssl.SSLSocket):
            steps.append(f"{client.sock.version()}, certificate checked")
        if server.user:
            client.login(server.user, server.password)
            steps.append("password taken")
    except BaseException:
        client.close()
        raise
    return client, steps


# ── our own pages, from outside ─────────────────────────────────────────────────────────────────

MIRROR = "mirror"  #: the purpose of the token that opens it

#: An address that is nobody's (RFC 5737), first in the chain of our question: what stands behind it, proxies wrote.
MARKER = "192.0.2.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflection:
    """What our pages answered to a question through the front: an HTTP status, and two numbers if it was 200."""

    status: int
    leads_to: str = ""  #: where we were sent instead
    seen: int = 0  #: proxies that the request passed
    proxies: int = 0  #: those that the web door believes


def reflection(site: Site, now: datetime) -> Reflection:
    """Ask our own address how our request looks from inside; raise OSError where nobody answers."""
    parts = urlsplit(site.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    token = links.seal(site, MIRROR, f"{now.timestamp():.0f}-{token_hex(8)}")
    with closing(kind(parts.hostname or "", parts.port, timeout=PATIENCE)) as connection:
        connection.request("GET", f"{parts.path}/mirror/{token}", headers={"X-Forwarded-For": MARKER})
        try:
            answer = connection.getresponse()
            content = answer.read(1000)
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP ({type(error).__name__})") from error
    if answer.status != http.HTTPStatus.OK:
        return Reflection(status=answer.status, leads_to=answer.getheader("location", ""))
    try:
        told = json.loads(content)
        return Reflection(status=answer.status, seen=int(told["seen"]), proxies=int(told["proxies"]))
    except (ValueError, KeyError, TypeError):
        return Reflection(status=http.HTTPStatus.NOT_FOUND)


def hops_behind_marker(chains: Iterable[str]) -> int:
    """Return how many proxies have written into the X-Forwarded-For of a question of ours."""
    hops = [hop.strip() for hop in ",".join(chains).split(",") if hop.strip()]
    return len(hops) - hops.index(MARKER) - 1 if MARKER in hops else len(hops)
