"""Parse a mail URL, which describes where mail is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from digest.delivery.limits.limit_rules import ServerShare, parse_server_rates
from digest.delivery.limits.rates import BURST_SECONDS
from digest.delivery.transports.provider_profiles import PROFILES, ProviderProfile
from digest.errors import BadField

FOLDER_FORMATS = {"maildir", "eml", "memory"}  #: the URL schemes of destinations that are not servers
DEFAULT_PORTS = {"smtp": 25, "smtps": 465, "lmtp": 24}
OPTIONS = {"starttls", "cafile", "profile", "weight", "rate"}
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
ESCAPING_HINT = "In a password write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25."


@dataclass(frozen=True, kw_only=True, slots=True)
class MailServer:
    """A mail server, as described by a mail URL."""

    scheme: str  #: smtp, smtps or lmtp
    host: str
    port: int
    profile: str = ""  #: the provider that runs it, if the provider rewrites headers or assigns ids
    path: str = ""  #: the path of a Unix socket, instead of host and port
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False
    weight: int = 1  #: the server's share of the mail, if there are several servers
    rate: str = ""  #: the server's rates, as written in the URL
    cafile: str | None = None  #: the certificate file of the authority; None for public authorities

    @classmethod
    def from_url(cls, url: str) -> MailServer:
        """Return the server of `smtp://user:pass@host:587?starttls=true` or `lmtp:///run/lmtp.sock`.

        Unless the URL sets `starttls` or begins with `smtps`, STARTTLS is required on port 587 and for a login,
        except with a server on this machine. Raises BadField if the URL is invalid.
        """
        try:
            parts = urlsplit(url)
            default = DEFAULT_PORTS[parts.scheme]
            port = parts.port or default
        except KeyError:
            raise invalid_url(
                "write smtp://host:587?starttls=true, lmtp://host:24 or maildir:///path"
            ) from None
        except ValueError:  # the original error might quote the password
            raise invalid_url(f"its host and port cannot be parsed. {ESCAPING_HINT}") from None
        if parts.hostname and (parts.path not in {"", "/"} or parts.fragment):
            raise invalid_url(f"there is extra text after the host {parts.hostname}. {ESCAPING_HINT}")
        path = unquote(parts.path) if not parts.hostname else ""
        if not parts.hostname and not path.startswith("/"):
            raise invalid_url("it has no host; write smtp://mail.example.org:587.")
        options = parse_options(parts.query)
        server = cls(
            scheme=parts.scheme,
            host=check_host(parts.hostname or ""),
            port=port,
            profile=options.get("profile", ""),
            path=path,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            starttls=BOOLEANS[options.get("starttls", "no").lower()],
            weight=int(options.get("weight", "1")),
            rate=options.get("rate", ""),
            cafile=options.get("cafile"),
        )
        if path and (server.starttls or server.scheme == "smtps"):
            raise invalid_url(f"{path} is a socket on this machine and needs no TLS.")
        needs_tls = not server.is_local and (port == 587 or bool(server.user))
        if needs_tls and "starttls" not in options and server.scheme != "smtps":
            return replace(server, starttls=True)
        return server

    @property
    def is_local(self) -> bool:
        """Return whether this server is on this machine; such a server may relay mail to other machines."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def name(self) -> str:
        """Return the server's address without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{self.path or f'{host}:{self.port}'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MailUrl:
    """The destination of all mail: one or several servers, a folder, or memory."""

    folder_format: str = ""  #: maildir, eml or memory; empty if mail goes to servers
    folder: Path = Path()
    servers: tuple[MailServer, ...] = ()
    shares: tuple[ServerShare, ...] = (ServerShare(),)  #: the servers with their weights and rates

    @property
    def profiles(self) -> list[ProviderProfile]:
        """Return the profiles of the providers behind the servers."""
        return [PROFILES[server.profile] for server in self.servers if server.profile]

    @property
    def rewritten_headers(self) -> frozenset[str]:
        """Return the headers that the providers replace with their own."""
        return frozenset[str]().union(*[profile.rewritten_headers for profile in self.profiles])

    @property
    def burst(self) -> float:
        """Return the capacity of token buckets in seconds of their rate: the smallest of any provider."""
        return min([profile.burst for profile in self.profiles], default=BURST_SECONDS)

    def __str__(self) -> str:
        return ", ".join(server.name for server in self.servers) or f"{self.folder_format}://{self.folder}"


def invalid_url(reason: str) -> BadField:
    """Return the error for a mail URL with a mistake."""
    return BadField("DIGEST_MAIL_URL", reason)


def parse_mail_url(text: str) -> MailUrl:
    """Parse a mail URL, or raise BadField.

    Servers are comma-separated; percent-escapes in a path are not decoded.
    """
    scheme, _, rest = text.strip().partition(":")
    if scheme in FOLDER_FORMATS:
        return MailUrl(folder_format=scheme, folder=Path(rest.removeprefix("//")))
    mail = MailUrl(servers=tuple(map(MailServer.from_url, re.split(r"\s*,\s*(?=\w+://)", text.strip()))))
    shares = tuple(
        ServerShare(
            name=server.name,
            weight=server.weight,
            rates=parse_server_rates(server.rate, server.name, mail.burst),
        )
        for server in mail.servers
    )
    return replace(mail, shares=shares)


def parse_options(query: str) -> dict[str, str]:
    """Return the options after the question mark; raise BadField if one is unknown or invalid."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - OPTIONS:
        raise invalid_url(
            f"{min(unknown)} is not an option; write starttls, cafile, profile, weight or rate."
        )
    if empty := sorted(name for name, value in options.items() if not value):
        raise invalid_url(f"{empty[0]} has no value; write {empty[0]}=... or leave it out.")
    if (starttls := options.get("starttls", "true")).lower() not in BOOLEANS:
        raise invalid_url(
            f"starttls={starttls} is neither true nor false; write one of them, or leave it out."
        )
    weight = options.get("weight", "1")
    if not (weight.isdecimal() and 1 <= int(weight) <= 100):
        raise invalid_url(f"the weight {weight!r} is not a number from 1 to 100.")
    profile = options.get("profile")
    if profile and profile not in PROFILES:
        raise invalid_url(f"{profile} is not a profile; write {' or '.join(PROFILES)}.")
    return options


def check_host(host: str) -> str:
    """Return the host, or raise BadField if it is not a valid name."""
    try:
        host.encode("idna")
        is_name = host.isprintable()
    except UnicodeError:
        is_name = False
    if not is_name:
        raise invalid_url(f"{host[:80]} is not a host name.")
    return host
