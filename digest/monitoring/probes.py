"""Check the broker, mail servers, disks and proxies that the service depends on, each within seconds."""

from __future__ import annotations

import http.client
import os
import shutil
import smtplib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from digest import db
from digest.delivery.transports.mail_url import MailServer, MailUrl
from digest.monitoring.check_results import Check, Problem, Severity, outage, passed, warning
from digest.monitoring.supervisor import Supervisor
from digest.settings import Settings, mask_url

TIMEOUT_SECONDS = 5.0  #: maximum time for a server to respond
LOW_BYTES, LOW_SHARE = 500_000_000, 0.1  #: free space below either limit causes a warning
#: Free space below which the disk counts as full, because a morning's letters may need more.
FULL_BYTES = 50_000_000


def check_broker(settings: Settings, supervisor: Supervisor, *, is_used: bool = True) -> Check:
    """Check that the broker responds and accepts writes; if only `digest run` is used, a fault is a warning.

    The embedded broker runs only while `digest up` runs.
    """
    if settings.broker_url is None and not settings.broker_socket.exists():
        return passed("broker", "the embedded broker is not running; digest up starts it")
    where = mask_url(settings.broker)
    try:
        error = write_to_broker(settings.broker)
    except OSError as failure:
        message, error = "The broker does not respond", failure.strerror or str(failure)
        own = f"{supervisor.start_server('redis-server')}, or correct DIGEST_BROKER_URL."
        fix = own if settings.broker_url else f"Restart: {supervisor.restart('worker')}."
    else:
        if not error:
            return passed("broker", where)
        message, fix = next((words for code, *words in BROKER_ERRORS if error.startswith(code)), OTHER_ERROR)
    if not is_used:
        return warning("broker", f"{message}. {NOT_USED}", fix)
    return outage("broker", message, f"{fix} {NO_TASKS}", f"{where}: {error}")


NO_TASKS = "Until then the workers get no tasks, so no digest is composed or sent by them. Nothing is lost."
NOT_USED = "The digests go out all the same, because digest run needs no broker"
#: The errors of a broker that responds: how they begin, the message and the fix.
BROKER_ERRORS = (
    ("OOM", "The broker has no memory for new tasks", "Raise maxmemory in redis.conf, or delete other keys."),
    ("READONLY", "The broker is a replica", "Name the primary in DIGEST_BROKER_URL."),
    ("MISCONF", "The broker cannot save its data to disk", "Free its disk; its log gives the reason."),
    ("LOADING", "The broker is loading its data", "Wait until it has started."),
    ("NOPERM", "The broker refuses this user", "Give the user in DIGEST_BROKER_URL all commands on the keys digest:*."),
)  # fmt: skip
OTHER_ERROR = (
    "The broker returns an error",
    "Set user and password in DIGEST_BROKER_URL: redis://user:password@host:6379/0.",
)


def write_to_broker(url: str) -> str:
    """Write to the broker as a task does; return its error, or "" if it accepts. Raises OSError if there is no reply."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        with redis.Redis.from_url(
            url.partition("?")[0].replace("redis+socket:", "unix:", 1),  # without Celery's options
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            client.sadd("digest:probe", "")
    except redis.RedisError as error:
        for kind, code in CODES_LEFT_OUT.items():
            if isinstance(error, getattr(redis.exceptions, kind)):
                return f"{code} {error}"
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            reason = error.__context__
            raise reason if isinstance(reason, OSError) else OSError(str(error)) from error
        return str(error)[:80]
    return ""


#: The errors from whose message redis-py removes the code.
CODES_LEFT_OUT = {
    "OutOfMemoryError": "OOM", "ReadOnlyError": "READONLY", "BusyLoadingError": "LOADING",
    "NoPermissionError": "NOPERM", "AuthenticationError": "NOAUTH",
}  # fmt: skip


def check_mail(mail: MailUrl, supervisor: Supervisor, *, logs_in: bool = False) -> tuple[Check, ...]:
    """Check every mail server, or the mail folder, without sending mail.

    With `logs_in`, TLS and passwords are also checked. A server that does not work is only a warning while
    another server works.
    """
    if not mail.servers:
        return (check_mail_folder(mail.folder),)
    found = [check_mail_server(server, supervisor, logs_in=logs_in) for server in mail.servers]
    if all(check.problems for check in found):
        return tuple(found)
    return tuple(
        replace(check, problems=tuple(replace(one, severity=Severity.WARNING) for one in check.problems))
        for check in found
    )


def check_mail_server(server: MailServer, supervisor: Supervisor, *, logs_in: bool) -> Check:
    """Check that a mail server responds, and with `logs_in` that it accepts TLS and the password."""
    try:
        with closing(connect_to_mail_server(server)) as client:
            client.ehlo_or_helo_if_needed()
            steps = ["answers", *(log_in(client, server) if logs_in else ())]
    except (OSError, smtplib.SMTPException) as error:
        start = supervisor.start_server("postfix") if server.is_local else "Start it"
        message, reason, fix = describe_mail_error(error, start)
        return outage(
            "mail",
            message,
            f"All letters wait until the server works again. {fix}",
            f"{server.name}: {reason}",
        )
    extensions = ", ".join(sorted(client.esmtp_features)) or "none"
    return passed("mail", f"{server.name} {', '.join(steps)}; extensions: {extensions}")


def describe_mail_error(error: Exception, start: str) -> tuple[str, str, str]:  # noqa: PLR0911  (one for each kind)
    """Return the message, the reason and the fix for a mail server's error; `start` says how to start the server."""
    match error:
        case smtplib.SMTPAuthenticationError():
            reason = f"reply code {error.smtp_code}"
            return "The mail server rejects the user or password", reason, "Check both in DIGEST_MAIL_URL."
        case smtplib.SMTPResponseException():
            said = (
                error.smtp_error.decode(errors="replace")
                if isinstance(error.smtp_error, bytes)
                else error.smtp_error
            )
            return (
                "The mail server refuses the session",
                f"{error.smtp_code} {said}",
                "Its log gives the reason.",
            )
        case smtplib.SMTPNotSupportedError():
            fix = "Check starttls and the port in DIGEST_MAIL_URL."
            return "The mail server does not offer what DIGEST_MAIL_URL requires", str(error), fix
        case ssl.SSLCertVerificationError():
            fix = "Use the host name in its certificate; name your own certificate in ?cafile= of DIGEST_MAIL_URL."
            return "The mail server's certificate cannot be trusted", error.verify_message, fix
        case ssl.SSLError():
            fix = "Check smtps, starttls and the port in DIGEST_MAIL_URL."
            return "The mail server does not respond with TLS", error.reason or str(error), fix
        case _:
            reason = getattr(error, "strerror", None) or str(error)
            return "The mail server does not respond", reason, f"{start}, or correct DIGEST_MAIL_URL."


def check_mail_folder(folder: Path) -> Check:
    """Check that mail can be written to a folder; a missing folder needs a writable parent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        return passed("mail", f"kept in {folder}; nothing is sent to anybody")
    fix = "All letters wait. Give the folder to the user who runs digest, or set DIGEST_MAIL_URL."
    return outage("mail", "Mail cannot be written to the mail folder", fix, str(existing))


def connect_to_mail_server(server: MailServer) -> smtplib.SMTP:
    """Connect to a mail server; with smtps, its certificate is checked."""
    if server.scheme == "smtps":
        tls = ssl.create_default_context(cafile=server.cafile)
        return smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT_SECONDS, context=tls)
    kind = smtplib.LMTP if server.scheme == "lmtp" else smtplib.SMTP
    return kind(server.path or server.host, server.port, timeout=TIMEOUT_SECONDS)


def log_in(client: smtplib.SMTP, server: MailServer) -> Iterator[str]:
    """Start TLS and log in, as for sending mail; yield the completed steps."""
    if server.starttls:
        client.starttls(context=ssl.create_default_context(cafile=server.cafile))
        client.ehlo()
    if isinstance(client.sock, ssl.SSLSocket):
        yield f"{client.sock.version()}, certificate checked"
    if server.user:
        client.login(server.user, server.password)
        yield "password accepted"


# ── disks ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """A file system that the service writes to, identified by a folder on it."""

    folder: Path
    free: int  #: number of bytes that can still be written
    size: int

    @property
    def is_low(self) -> bool:
        """Return whether the operator should free some space; a small disk that is half empty is not low."""
        return self.free <= min(max(LOW_BYTES, self.size * LOW_SHARE), self.size / 2)

    @property
    def is_full(self) -> bool:
        """Return whether writes will fail soon."""
        return self.free <= min(FULL_BYTES, self.size * LOW_SHARE)

    def __str__(self) -> str:
        return f"{self.free / 10**6:,.0f} MB ({self.free / max(1, self.size):.0%}) free in {self.folder}"


def writable_disks(settings: Settings) -> tuple[Disk, ...]:
    """Return the distinct disks that the service writes to; a folder that does not exist is on its parent's."""
    folders = [settings.data_dir.absolute(), settings.dumps.absolute()]
    if (file := db.database_file(settings.database)) is not None:
        folders.append(file.absolute().parent)
    found = {}
    with suppress(OSError):  # a folder cannot be accessed; check_data or the database check reports it
        for folder in folders:
            existing = next(path for path in (folder, *folder.parents) if path.exists())
            if (device := existing.stat().st_dev) not in found:
                usage = shutil.disk_usage(existing)
                found[device] = Disk(folder=folder, free=usage.free, size=usage.total)
    return tuple(found.values())


def check_data(settings: Settings, disks: Sequence[Disk]) -> Check:
    """Check the data directory, and the free space on every disk that is written to."""
    folder = settings.data_dir.absolute()
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        fix = "Give it to the user who runs digest, or set DIGEST_DATA_DIR to another folder."
        return outage("data", "The data directory cannot be written to", fix, str(folder))
    problems = tuple(
        Problem(
            cause="disk",
            message=f"The disk is {'full' if disk.is_full else 'nearly full'}: {disk}",
            fix="Free some space. A full disk stops the database and all mail.",
            severity=Severity.OUTAGE if disk.is_full else Severity.WARNING,
        )
        for disk in disks
        if disk.is_low
    )
    return Check(subject="data", message="; ".join(map(str, disks)) or str(folder), problems=problems)


# ── the public address ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class WebReply:
    """The reply to a health check at our public address."""

    status: int
    content: bytes = b""
    redirects_to: str = ""  #: the redirect's target, if any


def probe_web(url: str) -> WebReply:
    """Request the health check at an address of the web server; raise OSError if there is no HTTP reply."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)) as connection:
        connection.request("GET", f"{parts.path}/healthz")
        try:
            answer = connection.getresponse()
            content = answer.read(1000)
        except http.client.HTTPException as error:
            raise OSError(f"its reply is not HTTP ({type(error).__name__})") from error
    return WebReply(status=answer.status, content=content, redirects_to=answer.getheader("location", ""))
