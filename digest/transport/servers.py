"""Where mail goes and how long we wait there: what a mail URL says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from urllib.parse import parse_qsl, unquote, urlsplit

from digest.errors import BadField

PORTS = {"smtp": 25, "smtps": 465, "lmtp": 24}
OPTIONS = {"starttls", "cafile", "profile", "weight", "rate"}
YES_OR_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
ESCAPED = "In a password write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25."

#: Providers that put headers of their own in place of ours: a signature over ours would break.
PROFILES = {"ses": frozenset({"message-id", "date"}), "postfix": frozenset[str]()}

#: And how they say, in their reply to the final dot, what they call the letter from now on.
#: Postfix leaves our Message-ID alone, but its log speaks of queue ids: with one `digest trace` finds the letter.
NAMES = {"ses": re.compile(r"Ok <?([\w.-]{8,100})"), "postfix": re.compile(r"queued as ([\w.-]{5,100})")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How many seconds we wait. One window takes less than the task's time limit of 780 in all.

    After the final dot a server may think for ten minutes (RFC 5321, 4.5.3.2.6), and giving up earlier
    would make copies. Before the dot an early end costs nothing.
    """

    window: float = 30  #: then no further message of the window is begun
    connect: float = 30  #: for the whole greeting, with TLS and login
    command: float = 30
    body: float = 60
    dot: float = 600
    farewell: float = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Where mail goes, as a mail URL says it."""

    scheme: str  #: smtp, smtps or lmtp
    host: str
    port: int
    profile: str = ""  #: the provider behind it, if it is one that rewrites headers
    path: str = ""  #: of a Unix socket, instead of host and port
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False
    weight: int = 1  #: how much of the mail it takes, beside other servers
    rate: str = ""  #: how fast it lets us, as the URL says it
    cafile: str | None = None  #: the authority behind the server's certificate, if it is not a public one

    @classmethod
    def from_url(cls, url: str) -> Server:
        """Return the server of `smtp://user:pass@host:587?starttls=true` or `lmtp:///run/lmtp.sock`.

        STARTTLS is demanded on port 587, and wherever a password would cross a network, unless the URL
        says otherwise.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or PORTS[parts.scheme]
        except ValueError:  # its own words might quote the password
            raise BadField("DIGEST_MAIL_URL", f"its host and port cannot be read. {ESCAPED}") from None
        if parts.hostname and (parts.path not in {"", "/"} or parts.fragment):
            raise BadField("DIGEST_MAIL_URL", f"something follows the host {parts.hostname}. {ESCAPED}")
        path = unquote(parts.path) if not parts.hostname else ""
        if not parts.hostname and not path.startswith("/"):
            raise BadField("DIGEST_MAIL_URL", "it names no host; write smtp://mail.example.org:587.")
        options = options_of(parts.query)
        server = cls(
            scheme=parts.scheme,
            host=checked_host(parts.hostname or ""),
            port=port,
            profile=options.get("profile", ""),
            path=path,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            starttls=YES_OR_NO[options.get("starttls", "no").lower()],
            weight=int(options.get("weight", "1")),
            rate=options.get("rate", ""),
            cafile=options.get("cafile"),
        )
        if path and (server.starttls or server.scheme == "smtps"):
            raise BadField("DIGEST_MAIL_URL", f"{path} is a socket of this machine, which needs no TLS.")
        crosses = not server.is_local and (port == 587 or bool(server.user))
        if crosses and "starttls" not in options and server.scheme != "smtps":
            return replace(server, starttls=True)
        return server

    @property
    def is_local(self) -> bool:
        """Return whether mail to it stays on this machine, at first."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def name(self) -> str:
        """Return its address without the password, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{self.path or f'{host}:{self.port}'}"


def options_of(query: str) -> dict[str, str]:
    """Return what stands behind the question mark, or raise BadField: a slip there could mean no TLS."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - OPTIONS:
        raise BadField(
            "DIGEST_MAIL_URL",
            f"{min(unknown)} is no option; write starttls, cafile, profile, weight or rate.",
        )
    if empty := sorted(name for name, value in options.items() if not value):
        raise BadField("DIGEST_MAIL_URL", f"{empty[0]} says nothing; write {empty[0]}=... or leave it out.")
    if (starttls := options.get("starttls", "true")).lower() not in YES_OR_NO:
        raise BadField(
            "DIGEST_MAIL_URL",
            f"starttls={starttls} is neither true nor false; write one of them, or leave it out.",
        )
    weight = options.get("weight", "1")
    if not (weight.isdecimal() and 1 <= int(weight) <= 100):
        raise BadField("DIGEST_MAIL_URL", f"the weight {weight!r} is no number from 1 to 100.")
    profile = options.get("profile")
    if profile and profile not in PROFILES:
        raise BadField("DIGEST_MAIL_URL", f"{profile} is no profile; write {' or '.join(PROFILES)}.")
    return options


def checked_host(host: str) -> str:
    """Return the host, or raise BadField where nobody could even look it up."""
    try:
        host.encode("idna")
        is_name = host.isprintable()
    except UnicodeError:
        is_name = False
    if not is_name:
        raise BadField("DIGEST_MAIL_URL", f"{host[:80]} is no name of a host.")
    return host
