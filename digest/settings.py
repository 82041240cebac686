"""Read the settings once at an entry point, check them, and pass them down as a value.

Precedence: command line, environment (`DIGEST_X`, or `DIGEST_X_FILE` with the path of a file that
contains the value), `digest.toml` in the working directory or the data directory, default.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parseaddr
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from digest import addresses, db, retention_rules, site_profile
from digest.delivery import limits as send_limits
from digest.delivery import transports
from digest.delivery.limits import SendLimits
from digest.editions.schedule import parse_zone
from digest.errors import BadField
from digest.retention_rules import Retention
from digest.site_profile import LOCAL_URL, Site

PREFIX = "DIGEST_"
MAX_SENDER_LENGTH = 320
MAX_BRACKETS = 10  #: the TOML parser of the standard library is recursive
BROKER_SCHEMES = frozenset({"redis", "rediss", "redis+socket", "unix"})
LOCAL_SENDER = "Digest <digest@localhost>"


class Settings(BaseSettings):
    """All settings. Secrets are masked in `repr` and never logged."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", toml_file=None)

    data_dir: Path = Field(default=Path("digest-data"), description="Folder for local data.")
    dumps_dir: Path | None = Field(default=None, description="Folder watched for dumps.")
    database_url: SecretStr | None = Field(
        default=None, description="URL of the database, SQLite or PostgreSQL."
    )
    broker_url: SecretStr | None = Field(default=None, description="URL of Redis for the Celery workers.")
    mail_url: SecretStr | None = Field(default=None, description="URL of the mail server, or of a Maildir.")
    rates: str = Field(default="", description="Rate limits for mail; empty: none.")
    send_hours: str = Field(default="", description="Hours in which digests are sent; empty: all day.")
    warm_up: str = Field(default="", description="First day of a new sender's warm-up.")
    canary: str = Field(
        default="", description="Share of an edition that is sent first, and how long the rest waits."
    )
    stop_at: str = Field(
        default="bounces 10%, complaints 0.3%, deferred 50%, policy 20%",
        description="Failure rates at which all mail is stopped.",
    )
    window: int = Field(default=50, description="Most letters that a crash may leave in doubt.", ge=1, le=50)
    keep: str = Field(
        default="attempts 90 days, deliveries 400 days, dumps 30 days",
        description="How long attempts, deliveries and dumps are kept.",
    )
    timezone: str = Field(default="UTC", description="Time zone of send hours and warm-up days.")
    base_url: str = Field(default=LOCAL_URL, description="Public address of the site.")
    sender: str = Field(default=LOCAL_SENDER, description="From address of every letter.")
    site_name: str = Field(default="Digest", description="Name on pages and in letters.")
    postal_address: str = Field(default="", description="Postal address in the footer of every letter.")
    templates_dir: Path | None = Field(default=None, description="Folder of your own letters and pages.")
    dkim_selector: str = Field(default="digest", description="DKIM selectors, one for each key.")
    dkim_key: SecretStr | None = Field(default=None, description="Private DKIM keys that sign mail.")
    secret_key: SecretStr | None = Field(
        default=None, description="Keys that sign links; the first signs, all verify."
    )
    pepper: SecretStr | None = Field(
        default=None, description="Secret for hashing suppressed addresses; never change it."
    )
    signup: str = Field(default="open", description="Who may subscribe: open, closed, or domains.")
    log_format: Literal["text", "json"] = Field(default="text", description="Format of the logs.")
    log_level: Literal["debug", "info", "warning"] = Field(
        default="info", description="How much is logged; debug adds a line for every web request."
    )
    host: str = Field(default="127.0.0.1", description="Address the web server listens on.")
    port: int = Field(default=8000, description="Port the web server listens on.", ge=0, le=65535)
    short_dumps: Literal["hold", "send"] = Field(
        default="hold",
        description="Whether incomplete lists wait for the operator, or are sent with a notice.",
    )
    inbound: str = Field(default="", description="Address the inbound mail server listens on; empty: off.")
    inbound_domain: str = Field(default="", description="Domain of incoming mail.")
    sns_topics: str = Field(default="", description="Amazon SNS topics whose SES notices are accepted.")
    operator_email: str = Field(default="", description="Address for alarm letters.")
    proxies: int = Field(
        default=0, description="Number of trusted proxies in front of the web server.", ge=0, le=9
    )

    @model_validator(mode="before")
    @classmethod
    def follow_port(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Use the web server's port in links unless `base_url` is set."""
        if "base_url" in given or not str(given.get("port", "")).isdigit():
            return given  # the check of `port` refuses an invalid value
        return given | {"base_url": f"http://127.0.0.1:{given['port']}"}

    @field_validator("base_url")
    @classmethod
    def check_base_url(cls, value: str) -> str:
        """Refuse a value that is not an http or https address."""
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or (parts.port or 0) < 0:
            raise ValueError("write an address such as https://digest.example.org")
        return value.rstrip("/")

    @field_validator("database_url", "broker_url")
    @classmethod
    def check_server_url(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse the URL of an unsupported server; the error does not contain the password."""
        if value is None:
            return value
        try:
            if info.field_name == "database_url":
                db.parsed_url(value.get_secret_value())
            else:
                parts = urlsplit(value.get_secret_value())
                if parts.scheme not in BROKER_SCHEMES or (parts.port or 0) < 0:
                    raise ValueError(parts.scheme)
        except BadField as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        except ValueError:
            raise ValueError("write redis://user:password@host:6379/0, rediss:// for TLS.") from None
        return value

    @field_validator("sender")
    @classmethod
    def check_sender(cls, value: str) -> str:
        """Refuse a sender that mail servers would not accept."""
        name, address = parseaddr(value if value.count("(") < MAX_BRACKETS else "")
        if len(value) > MAX_SENDER_LENGTH or "@" not in address or any(char in value for char in "\r\n"):
            raise ValueError("write it as: Name <address@example.org>")
        local, _, domain = address.rpartition("@")
        if not local.isascii():
            raise ValueError(f"{local} is outside ASCII, which many mail servers refuse")
        address = address if domain.isascii() else f"{local}@{addresses.ascii_domain(domain)}"
        return f"{name} <{address}>" if name else address

    @field_validator("inbound_domain")
    @classmethod
    def check_inbound_domain(cls, value: str) -> str:
        """Return the domain in ASCII, the form used in envelopes."""
        return value if value.isascii() else addresses.ascii_domain(value)

    @field_validator("mail_url")
    @classmethod
    def check_mail_url(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse a URL whose scheme has no transport."""
        servers, folders = {"smtp", "smtps", "lmtp"}, {"maildir", "eml", "memory"}
        if value is None or urlsplit(value.get_secret_value()).scheme in folders:
            return value
        if not {urlsplit(url).scheme for url in transports.split_urls(value.get_secret_value())} <= servers:
            raise ValueError("write smtp://host:587?starttls=true, lmtp://host:24 or maildir:///path")
        try:
            send_limits.parse_servers(transports.server_shares(value.get_secret_value()))
        except BadField as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return value

    @field_validator("rates", "send_hours", "warm_up", "canary", "stop_at", "keep", "timezone")
    @classmethod
    def check_limits(cls, value: str, info: ValidationInfo) -> str:
        """Refuse a value that cannot be parsed."""
        parsers: dict[str | None, Callable[[str], object]] = {
            "rates": send_limits.parse_rates,
            "send_hours": partial(send_limits.parse_send_hours, zone="UTC"),
            "warm_up": partial(send_limits.parse_warm_up, zone="UTC"),
            "canary": send_limits.parse_canary,
            "stop_at": send_limits.parse_stop_thresholds,
            "keep": retention_rules.parse_retention,
            "timezone": parse_zone,
        }
        try:
            parsers[info.field_name](value)
        except BadField as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return value

    @field_validator("signup")
    @classmethod
    def check_signup(cls, value: str) -> str:
        """Refuse words other than open, closed or domains, which would prevent every sign-up."""
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if value.strip() not in {"open", "closed"} and not all("." in part for part in parts):
            raise ValueError("write open, closed, or domains: uni.example, lab.example")
        return value.strip()

    @field_validator("inbound")
    @classmethod
    def check_inbound(cls, value: str) -> str:
        """Refuse a value that is not the address of an LMTP or SMTP server."""
        for url in value.replace(",", " ").split():
            parts = urlsplit(url)
            is_place = bool(parts.hostname and parts.port) or (parts.scheme == "lmtp" and bool(parts.path))
            if parts.scheme not in {"lmtp", "smtp"} or not is_place:
                raise ValueError(
                    "write lmtp://127.0.0.1:8024, lmtp:///run/digest/lmtp.sock or smtp://0.0.0.0:25"
                )
        return value.strip()

    @field_validator("sns_topics")
    @classmethod
    def check_sns_topics(cls, value: str) -> str:
        """Refuse a value that is not the ARN of an SNS topic."""
        from digest.bounces.sns_topics import (
            is_topic_arn,
        )  # imports cryptography

        for arn in value.replace(",", " ").split():
            if not is_topic_arn(arn):
                raise ValueError(
                    f"{arn!r} is not an SNS topic; write arn:aws:sns:eu-west-1:123456789012:bounces"
                )
        return value.strip()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence."""
        del dotenv_settings, file_secret_settings
        return (init_settings, env_settings, EnvFileSource(settings_cls), toml_source(settings_cls))

    # ── derived values ──────────────────────────────────────────────────────────────────────────

    @property
    def database(self) -> str:
        """Return the database URL in use."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir.absolute() / 'digest.sqlite3'}"

    @property
    def mail(self) -> str:
        """Return the mail URL in use."""
        if self.mail_url is not None:
            return self.mail_url.get_secret_value()
        return f"maildir://{self.data_dir.absolute() / 'outbox'}"

    @property
    def broker(self) -> str:
        """Return the broker URL in use, by default the embedded broker's socket."""
        if self.broker_url is not None:
            return self.broker_url.get_secret_value()
        return f"redis+socket://{self.broker_socket}"

    @property
    def broker_socket(self) -> Path:
        """Return the socket of the embedded broker."""
        return self.data_dir.absolute() / "broker" / "broker.sock"

    @property
    def dumps(self) -> Path:
        """Return the folder watched for dumps."""
        return self.dumps_dir or self.data_dir / "dumps"

    @property
    def sends_short_dumps(self) -> bool:
        """Return whether incomplete lists are loaded, with a notice in the digests."""
        return self.short_dumps == "send"

    @property
    def inbound_urls(self) -> tuple[str, ...]:
        """Return the addresses that the inbound mail server listens on."""
        return tuple(self.inbound.replace(",", " ").split())

    @property
    def sns_topic_arns(self) -> frozenset[str]:
        """Return the SNS topics whose notices are accepted."""
        return frozenset(self.sns_topics.replace(",", " ").split())

    @property
    def template_overrides(self) -> Path:
        """Return the folder of the operator's own templates, which may not exist."""
        return self.templates_dir or self.data_dir / "templates"

    @property
    def limits(self) -> SendLimits:
        """Return the limits on sending: rates, hours, warm-up, canary and stop thresholds."""
        burst = (
            send_limits.SES_BURST_SECONDS
            if "ses" in transports.provider_profiles(self.mail)
            else send_limits.BURST_SECONDS
        )
        return SendLimits(
            rates=send_limits.parse_rates(self.rates, burst=burst),
            conversation_limits=send_limits.parse_conversation_limits(self.rates),
            servers=send_limits.parse_servers(transports.server_shares(self.mail), burst=burst),
            hours=send_limits.parse_send_hours(self.send_hours, self.timezone),
            warm_up=send_limits.parse_warm_up(self.warm_up, self.timezone),
            canary=send_limits.parse_canary(self.canary),
            stop_thresholds=send_limits.parse_stop_thresholds(self.stop_at),
        )

    @property
    def retention(self) -> Retention:
        """Return how long old rows and files are kept."""
        return retention_rules.parse_retention(self.keep)

    @property
    def is_sample_allowed(self) -> bool:
        """Return whether sample content is allowed: only if all mail goes to the local Maildir."""
        return self.mail_url is None and self.database_url is None and Site(url=self.base_url).is_local

    @property
    def may_sign_up(self) -> frozenset[str] | None:
        """Return the domains whose addresses may sign up; None for all, empty for none."""
        if self.signup == "open":
            return None
        return frozenset(part.strip().lower() for part in self.signup.split(",") if part.strip() != "closed")

    def site(self) -> Site:
        """Return the site, with keys from the settings or the data directory, where they are generated."""
        name, address = parseaddr(self.sender)
        ring = self.secret_key.get_secret_value() if self.secret_key else self.stored_secret("secret_key")
        pepper = self.pepper.get_secret_value() if self.pepper else self.stored_secret("pepper")
        return Site(
            name=self.site_name,
            url=self.base_url,
            sender_name=name,
            sender_address=address,
            postal_address=self.postal_address,
            keys=tuple(key.strip().encode() for key in ring.split(",") if key.strip()),
            pepper=pepper.encode(),
            inbound_domain=(self.inbound_domain or address.rpartition("@")[2]) if self.inbound else "",
            announces_late_lists=self.sends_short_dumps,
        )

    def stored_secret(self, name: str) -> str:
        """Return a secret stored in the data directory; it is created on first use with mode 600.

        The file is created atomically with its content, so roles that start together use the same secret.
        """
        path = self.data_dir / name
        if not path.exists():
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(prefix=f".{name}-", dir=self.data_dir)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))
            with suppress(FileExistsError):
                os.link(made, path)
            Path(made).unlink()
        return path.read_text().strip()

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
            descriptor, made = tempfile.mkstemp(prefix=".secret_key-", dir=self.data_dir)
            with os.fdopen(descriptor, "w") as file:
                file.write(",".join(left) or secrets.token_urlsafe(32))
            Path(made).replace(path)
        return len(left) < len(ring)


class EnvFileSource(EnvSettingsSource):
    """Read settings from files named by `DIGEST_X_FILE`, the way container secrets are passed."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Return the content of the named file, or None."""
        path = self.env_vars.get(f"{PREFIX}{field_name}_file".lower())
        return (Path(path).read_text().strip() if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all fields set by files."""
        found = {name: self.get_field_value(None, name)[0] for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


def toml_source(settings_cls: type[BaseSettings]) -> PydanticBaseSettingsSource:
    """Return the settings file in the working directory, else the one in the data directory."""
    data_dir = Path(os.environ.get(f"{PREFIX}DATA_DIR", "digest-data"))
    candidates = [Path("digest.toml"), data_dir / "digest.toml"]
    found = next((path for path in candidates if path.is_file()), None)
    return TomlConfigSettingsSource(settings_cls, toml_file=found)


def templates_dir() -> Path:
    """Return the folder of templates, inside an installed wheel or at the top of a checkout."""
    package = Path(__file__).parent
    packed = package / "_templates"
    return packed if packed.is_dir() else package.parent / "templates"


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings, or raise BadField for the first invalid one."""
    try:
        return Settings(**{name: value for name, value in (overrides or {}).items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise BadField(f"{PREFIX}{name.upper()}", str(first["msg"]).removeprefix("Value error, ")) from None
    except OSError as error:
        raise BadField(f"{PREFIX}*_FILE", f"{error.filename}: {error.strerror}") from None
