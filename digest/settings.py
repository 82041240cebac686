"""Read the settings once at an entry point, check them, and pass them down as a value.

Precedence: command line, environment (`DIGEST_X`, or `DIGEST_X_FILE` with the path of a file that
contains the value), `digest.toml` in the working directory or the data directory, default.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from email.headerregistry import Address
from email.utils import parseaddr
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from digest import db
from digest.delivery.limits import limit_rules
from digest.delivery.limits.canary import Canary, parse_canary
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.send_hours import SendHours, parse_send_hours
from digest.delivery.limits.warm_up import WarmUp, parse_warm_up
from digest.delivery.transports.mail_url import MailUrl, parse_mail_url
from digest.editions.time_zones import parse_zone
from digest.errors import BadField, SetupMismatch, UsageError
from digest.mail import addresses
from digest.papers.public_view import PublicPages, parse_public_pages
from digest.publishing.retention_rules import Retention, parse_retention
from digest.site import site_profile
from digest.site.site_profile import Site

if TYPE_CHECKING:
    from digest.letters.templates import Templates

PREFIX = "DIGEST_"
MAX_SENDER_LENGTH = 320
#: a sender must contain fewer `(` than this, because the standard library's address parser is recursive
MAX_BRACKETS = 10
LONGEST_SOCKET = 100  #: maximum length of a socket's path in bytes; Linux allows 107, macOS 103
SECRETS = ("secret_key", "pepper")
BROKER_SCHEMES = frozenset({"redis", "rediss", "redis+socket", "unix"})


def setting(
    default: str | None,
    parse: Callable[..., object] = str,
    *,
    others: tuple[str, ...] = (),
    is_shown: bool = True,
) -> Any:
    """Return a field of the settings: its default as the operator writes it (None: not set), and its parser.

    `parse` gets the text and the values of `others` (earlier fields).
    """
    return field(metadata={"default": default, "parse": parse, "others": others}, repr=is_shown)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return the parser of a setting with these values."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"write {' or '.join(choices)}")
        return text

    return parse


def number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the parser of a whole number within limits."""

    def parse(text: str) -> int:
        if not text.strip().isdecimal() or not lowest <= int(text) <= highest:
            raise ValueError(f"write a number from {lowest} to {highest}")
        return int(text)

    return parse


def parse_base_url(text: str, listen: ListenAddress) -> str:
    """Return the public address; unless it is set, links lead to the web server's port on this machine."""
    return parse_url(text or f"http://127.0.0.1:{listen.port}")


def parse_url(text: str) -> str:
    """Return an http or https URL without a trailing slash; raise ValueError for any other text."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or (parts.port or 0) < 0:
        raise ValueError("write an address such as https://digest.example.org")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address and port that the web server listens on."""

    host: str = "127.0.0.1"
    port: int = 8000

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> ListenAddress:
    """Parse an address and a port; raise ValueError for any other text."""
    with suppress(ValueError):
        parts = urlsplit(f"//{text.strip()}")
        if parts.hostname and parts.port is not None and parts.netloc == text.strip() and "@" not in text:
            return ListenAddress(parts.hostname, parts.port)
    raise ValueError("write an address and a port, such as 127.0.0.1:8000")


def parse_footer_links(text: str) -> dict[str, str]:
    """Parse links such as `Imprint https://..., Privacy https://...`; raise ValueError for any other text."""
    pairs = [piece.strip().rpartition(" ") for piece in text.split(",") if piece.strip()]
    if not all(label.strip() for label, _, _ in pairs):
        raise ValueError("write a name before each address: Imprint https://lab.example/imprint")
    return {label.strip(): parse_url(url) for label, _, url in pairs}


@dataclass(frozen=True, slots=True)
class DkimKey:
    """A private DKIM key in PEM form, its selector, and the file it was read from."""

    selector: str
    path: str
    pem: str = field(repr=False)


def parse_dkim_keys(text: str) -> tuple[DkimKey, ...]:
    """Read the keys named as `selector:path`, separated by commas; raise ValueError if that fails."""
    keys = []
    for piece in filter(None, map(str.strip, text.split(","))):
        selector, _, path = piece.partition(":")
        if not selector or not path:
            raise ValueError("write selector:path, such as mail:/var/lib/digest/dkim-mail.pem")
        try:
            keys.append(DkimKey(selector, path, Path(path).expanduser().read_text(encoding="utf-8")))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a private key in PEM form") from None
    return tuple(keys)


def parse_database_url(text: str) -> str:
    """Return the URL of a supported database, or raise BadField."""
    db.parsed_url(text)
    return text


def parse_broker_url(text: str) -> str:
    """Return the URL of a supported broker; raise ValueError without revealing the password."""
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in BROKER_SCHEMES and (parts.port or 0) >= 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("write redis://user:password@host:6379/0, rediss:// for TLS.")
    return text


def parse_sender(text: str) -> Address:
    """Return the sender with its domain in ASCII.

    Raises ValueError if `text` is not an address, or if mail servers would refuse it.
    """
    name, address = parseaddr(text if text.count("(") < MAX_BRACKETS else "")
    if len(text) > MAX_SENDER_LENGTH or "@" not in address or any(char in text for char in "\r\n"):
        raise ValueError("write it as: Name <address@example.org>")
    local, _, domain = address.rpartition("@")
    if not local.isascii():
        raise ValueError(f"{local} is outside ASCII, which many mail servers refuse")
    return Address(name, local, domain if domain.isascii() else addresses.ascii_domain(domain))


def parse_inbound_domain(text: str) -> str:
    """Return the domain in ASCII, the form used in envelopes."""
    return text if text.isascii() else addresses.ascii_domain(text)


def parse_signup(text: str) -> frozenset[str] | None:
    """Return the domains whose addresses may sign up: None for all, empty for none.

    Raises ValueError for any other text.
    """
    parts = frozenset(part.strip().lower() for part in text.split(",") if part.strip())
    if text.strip() in {"open", "closed"}:
        return None if text.strip() == "open" else frozenset()
    if not all("." in part for part in parts):
        raise ValueError("write open, closed, or domains: uni.example, lab.example")
    return parts


def parse_inbound(text: str) -> tuple[str, ...]:
    """Return the URLs at which the inbound LMTP and SMTP servers listen.

    Raises ValueError for other URLs, and for SMTP on an address that other machines reach.
    """
    urls = tuple(text.replace(",", " ").split())
    for parts in map(urlsplit, urls):
        is_place = bool(parts.hostname and parts.port) or (parts.scheme == "lmtp" and bool(parts.path))
        if parts.scheme not in {"lmtp", "smtp"} or not is_place:
            raise ValueError(
                "write lmtp://127.0.0.1:8024, lmtp:///run/digest/lmtp.sock or smtp://127.0.0.1:8025"
            )
        if parts.scheme == "smtp" and not is_loopback(parts.hostname or ""):
            raise ValueError(
                f"SMTP is received from this machine only, not at {parts.hostname}. Let a mail server receive mail"
                " from the internet and pass it on: to smtp://127.0.0.1:8025, or to lmtp://HOST:8024 (docs/deploy.md)"
            )
    return urls


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_sns_topics(text: str) -> frozenset[str]:
    """Return the ARNs of SNS topics; raise ValueError if one is not an ARN."""
    arns = text.replace(",", " ").split()
    for arn in arns:
        from digest.bounces.ses_notices import is_topic_arn  # imports parsers of mail

        if not is_topic_arn(arn):
            raise ValueError(f"{arn!r} is not an SNS topic; write arn:aws:sns:eu-west-1:123456789012:bounces")
    return frozenset(arns)


def parse_folder(text: str) -> Path:
    """Return a folder with the home directory in place of `~`, which only shells expand."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{text}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, each parsed once. Secrets are neither in `repr` nor logged; the README describes each setting."""

    data_dir: Path = setting("digest-data", parse_folder)
    dumps_dir: Path | None = setting(None, parse_folder)
    database_url: str | None = setting(None, parse_database_url, is_shown=False)
    broker_url: str | None = setting(None, parse_broker_url, is_shown=False)
    mail_url: MailUrl | None = setting(None, parse_mail_url)
    timezone: str = setting("UTC", parse_zone)
    rates: SendLimits = setting("", limit_rules.parse_shared_limits)
    send_hours: SendHours | None = setting("", parse_send_hours, others=("timezone",))
    warm_up: WarmUp | None = setting("", parse_warm_up, others=("timezone",))
    canary: Canary | None = setting("", parse_canary)
    stop_at: Mapping[str, float] = setting(
        "bounces 10%, complaints 0.3%, deferred 50%, policy 20%", limit_rules.parse_stop_thresholds
    )
    window: int = setting("50", number(1, 50))
    keep: Retention = setting("", parse_retention)
    listen: ListenAddress = setting("127.0.0.1:8000", parse_listen)
    base_url: str = setting("", parse_base_url, others=("listen",))
    sender: Address = setting("Digest <digest@localhost>", parse_sender)
    site_name: str = setting("Digest")
    postal_address: str = setting("")
    dkim_keys: tuple[DkimKey, ...] = setting("", parse_dkim_keys)
    secret_key: str | None = setting(None, is_shown=False)
    pepper: str | None = setting(None, is_shown=False)
    signup: frozenset[str] | None = setting("open", parse_signup)
    public: PublicPages = setting("", parse_public_pages)
    footer_links: Mapping[str, str] = setting("", parse_footer_links)
    log_format: str = setting("text", one_of("text", "json"))
    log_level: str = setting("info", one_of("debug", "info", "warning"))
    short_dumps: str = setting("hold", one_of("hold", "send"))
    inbound: tuple[str, ...] = setting("", parse_inbound)
    inbound_domain: str = setting("", parse_inbound_domain)
    authserv_id: str = setting("")
    sns_topics: frozenset[str] = setting("", parse_sns_topics)
    operator_email: str = setting("")
    weekly_report: str = setting("off", one_of("on", "off"))
    proxies: int = setting("0", number(0, 9))

    #: The settings as the operator wrote them, keyed by name.
    written: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    def shown(self) -> dict[str, Any]:
        """Return all settings as the operator wrote them, with what is in use by default, and no secret."""
        return {
            **{name: self.written[name] or "" for name in NAMES},
            **{name: "set" if getattr(self, name) else "kept in the data directory" for name in SECRETS},
            "data_dir": str(self.data_dir.absolute()),
            "dumps_dir": str(self.dumps.absolute()),
            "database_url": mask_url(self.database),
            "broker_url": mask_url(self.broker),
            "mail_url": str(self.mail),
            "base_url": self.base_url,
            "keep": str(self.keep),
            "window": self.window,
            "proxies": self.proxies,
        }

    # ── derived values ──────────────────────────────────────────────────────────────────────────

    @property
    def database(self) -> str:
        """Return the database URL in use."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'digest.sqlite3'}"

    @property
    def mail(self) -> MailUrl:
        """Return the mail URL in use, by default the Maildir in the data directory."""
        return self.mail_url or MailUrl(folder_format="maildir", folder=self.data_dir.absolute() / "outbox")

    @property
    def broker(self) -> str:
        """Return the broker URL in use, by default the embedded broker's socket."""
        return self.broker_url or f"redis+socket://{self.broker_socket}"

    @property
    def broker_socket(self) -> Path:
        """Return the socket of the embedded broker: in a temporary folder if its path would be too long."""
        path = self.data_dir.absolute() / "broker" / "broker.sock"
        if len(name := os.fsencode(path)) <= LONGEST_SOCKET:
            return path
        return Path(tempfile.gettempdir()) / f"digest-{sha256(name).hexdigest()[:16]}" / path.name

    @property
    def dumps(self) -> Path:
        """Return the folder watched for dumps."""
        return self.dumps_dir or self.data_dir / "dumps"

    @property
    def sends_short_dumps(self) -> bool:
        """Return whether incomplete lists are loaded, with a notice in the digests."""
        return self.short_dumps == "send"

    @property
    def template_overrides(self) -> Path:
        """Return the folder of the operator's own templates, which may not exist."""
        return self.data_dir / "templates"

    def templates(self) -> Templates:
        """Read the templates."""
        from digest.letters.templates import Templates  # imports Jinja, which few commands need

        return Templates(templates_dir(), self.template_overrides)

    @property
    def limits(self) -> SendLimits:
        """Return the limits on sending: rates, hours, warm-up, canary and stop thresholds."""
        return replace(
            self.rates,
            rates=tuple(replace(rate, burst=self.mail.burst) for rate in self.rates.rates),
            servers=self.mail.shares,
            hours=self.send_hours,
            warm_up=self.warm_up,
            canary=self.canary,
            stop_thresholds=self.stop_at,
        )

    @property
    def is_sample_allowed(self) -> bool:
        """Return whether the sample papers and the sample reader may be loaded.

        Sample content is allowed only with the default database, the default Maildir and a local URL.
        """
        return self.mail_url is None and self.database_url is None and Site(url=self.base_url).is_local

    def site(self) -> Site:
        """Return the site, with keys from the settings or the data directory.

        Missing keys are generated in the data directory.
        """
        return Site(
            name=self.site_name,
            url=self.base_url,
            sender_name=self.sender.display_name,
            sender_address=self.sender.addr_spec,
            postal_address=self.postal_address,
            keys=tuple(key.strip().encode() for key in self.secret("secret_key").split(",") if key.strip()),
            pepper=self.secret("pepper").encode(),
            inbound_domain=(self.inbound_domain or self.sender.domain) if self.inbound else "",
            announces_late_lists=self.sends_short_dumps,
        )

    def secret(self, name: str) -> str:
        """Return a secret: as it is set, or as stored in the data directory, created on first use with mode 600.

        The file is created atomically with its content, so roles that start together use the same secret.
        """
        if given := getattr(self, name):
            return str(given)
        path = self.data_dir / name
        if not path.exists():
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, secrets.token_urlsafe(32))
        return path.read_text().strip()

    def store_secret(self, name: str, value: str) -> None:
        """Store a secret in the data directory; raise SetupMismatch if another secret is stored there."""
        path = self.data_dir / name
        if not path.exists():
            write_private(path, value)
        if path.read_text().strip() != value:
            raise SetupMismatch(
                f"{path} is not the key in the backup. Move it away, and run the command again."
            )

    def drop_kept_key(self, key_id: str) -> bool:
        """Remove a signing key from the ring in the data directory; return whether it was in the ring.

        If no key is left, a new one is generated.
        """
        path = self.data_dir / "secret_key"
        if self.secret_key is not None or not path.exists():
            return False
        ring = [key.strip() for key in path.read_text().split(",") if key.strip()]
        left = [key for key in ring if site_profile.key_id(key.encode()) != key_id]
        if len(left) < len(ring):
            write_private(path, ",".join(left) or secrets.token_urlsafe(32), replaces=True)
        return len(left) < len(ring)


def write_private(path: Path, text: str, *, replaces: bool = False) -> bool:
    """Write a file that only its owner can read, in one step; return False if it exists and is not replaced."""
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    if replaces:
        Path(made).replace(path)
        return True
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    finally:
        Path(made).unlink()
    return True


NAMES = tuple(one.name for one in fields(Settings) if one.metadata)


def mask_url(url: str) -> str:
    """Return a URL without its password and its query."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    user = f"{parts.username or ''}:***@" if parts.password is not None else ""
    if parts.username and parts.password is None:
        user = f"{parts.username}@"
    return urlunsplit((parts.scheme, user + address, parts.path, "", "")) if parts.netloc else url


def given_values() -> dict[str, tuple[Any, str]]:
    """Return every setting that is given, with the place it comes from: the environment, or else a file."""
    return settings_file_values() | environment_values()


def environment_values() -> dict[str, tuple[Any, str]]:
    """Return the settings from the environment, and from the files that `DIGEST_X_FILE` variables name.

    Container platforms provide secrets as files.
    """
    given = {name.lower(): value for name, value in os.environ.items()}
    values: dict[str, tuple[Any, str]] = {}
    for name in NAMES:
        variable = f"{PREFIX}{name}".lower()
        if path := given.get(f"{variable}_file"):
            values[name] = Path(path).read_text().strip(), path
        if variable in given:
            values[name] = given[variable], "environment"
    return values


def settings_file_values() -> dict[str, tuple[Any, str]]:
    """Return the settings in the `digest.toml` of the working directory, or else of the data directory.

    Raises UsageError if the file is not TOML.
    """
    named = os.environ.get(f"{PREFIX}DATA_DIR", "digest-data")
    data_dir = Path(os.path.expanduser(named))  # noqa: PTH111  (without an error)
    candidates = [Path("digest.toml"), data_dir / "digest.toml"]
    found = next((path for path in candidates if path.is_file()), None)
    try:
        values = tomllib.loads(found.read_text(encoding="utf-8")) if found else {}
    except ValueError as error:
        raise UsageError(
            f"{found} cannot be read: {error}. Correct the file, or move it elsewhere."
        ) from None
    return {name: (value, str(found)) for name, value in values.items()}


def templates_dir() -> Path:
    """Return the folder of templates, inside an installed wheel or at the top of a checkout."""
    package = Path(__file__).parent
    packed = package / "_templates"
    return packed if packed.is_dir() else package.parent / "templates"


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings; raise BadField for the first invalid one, UsageError if `digest.toml` is invalid."""
    try:
        given = {name: value for name, (value, _) in given_values().items()}
    except OSError as error:
        raise BadField(f"{PREFIX}*_FILE", f"{error.filename}: {error.strerror}") from None
    given |= {name: value for name, value in (overrides or {}).items() if value is not None}
    if unknown := given.keys() - {*NAMES}:
        raise BadField(
            f"{PREFIX}{min(unknown).upper()}", "there is no such setting; the README lists them all."
        )
    described = {one.name: one for one in fields(Settings) if one.metadata}
    written = {name: one.metadata["default"] for name, one in described.items()} | given
    parsed: dict[str, Any] = {}
    for name, one in described.items():
        parsed[name] = None if written[name] is None else parse_setting(one, written[name], parsed)
    folder = parsed["data_dir"].absolute()
    if found := sorted(
        set("%?#") & set(str(folder))
    ):  # they mean something else in the URLs of what is in it
        raise BadField(
            f"{PREFIX}DATA_DIR", f"{folder} contains {' '.join(found)}; choose a folder without %, ? and #."
        )
    return Settings(**parsed, written=written)


def parse_setting(one: Field[Any], value: object, earlier: Mapping[str, Any]) -> object:
    """Return the parsed value of a setting; raise BadField with its name if it is invalid."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | Path):
            raise ValueError("write it as text, in quotes")  # noqa: TRY004  (reported like an invalid text)
        return one.metadata["parse"](str(value), *[earlier[name] for name in one.metadata["others"]])
    except BadField as error:
        message = str(error).partition(": ")[2]
    except ValueError as error:
        message = str(error)
    raise BadField(f"{PREFIX}{one.name.upper()}", message)
