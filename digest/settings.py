"""The settings: read once at a door, checked, and handed down as a value.

Precedence: command line, environment (`DIGEST_X`, or `DIGEST_X_FILE` naming a file that holds the
value), `digest.toml` in the working directory or the data directory, default.
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

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from digest import addresses, rates, transport
from digest.editions import zone_in
from digest.errors import BadField
from digest.links import LOCAL_URL, Site
from digest.rates import Rules

PREFIX = "DIGEST_"
LOCAL_SENDER = "Digest <digest@localhost>"


class Settings(BaseSettings):
    """Every knob there is. Secrets are masked in `repr` and never logged."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", toml_file=None)

    data_dir: Path = Field(default=Path("digest-data"), description="Where everything local lives.")
    dumps_dir: Path | None = Field(default=None, description="The folder watched for dumps.")
    database_url: SecretStr | None = Field(default=None, description="SQLite or PostgreSQL.")
    broker_url: SecretStr | None = Field(default=None, description="Redis for the Celery workers.")
    mail_url: SecretStr | None = Field(default=None, description="Where mail goes.")
    rates: str = Field(default="", description="How fast mail may go; empty: as fast as it can.")
    send_hours: str = Field(default="", description="The hours in which digests go out; empty: all day.")
    warm_up: str = Field(default="", description="The first day of a new sender's slow start.")
    canary: str = Field(default="", description="The share of an edition that goes ahead, and for how long.")
    stop_at: str = Field(
        default="bounces 10%, complaints 0.5%, deferred 50%, policy 20%",
        description="Shares of mail that go wrong at which all of it is stopped.",
    )
    window: int = Field(default=50, description="Letters that a crash may leave in doubt.", ge=1, le=50)
    timezone: str = Field(default="UTC", description="The operator's own: of send hours and warm-up days.")
    base_url: str = Field(default=LOCAL_URL, description="Our address on the web.")
    sender: str = Field(default=LOCAL_SENDER, description="The From of every letter.")
    site_name: str = Field(default="Digest", description="The name on pages and letters.")
    postal_address: str = Field(default="", description="Shown in the footer of every letter.")
    templates_dir: Path | None = Field(default=None, description="Letters and pages of your own.")
    dkim_selector: str = Field(default="digest", description="The names of the keys that sign mail.")
    dkim_key: SecretStr | None = Field(default=None, description="Private keys that sign mail.")
    secret_key: SecretStr | None = Field(default=None, description="Ring of keys that sign links.")
    pepper: SecretStr | None = Field(default=None, description="Guards suppressions; never rotate it.")
    signup: str = Field(default="open", description="Who may subscribe: open, closed, or domains.")
    log_format: Literal["text", "json"] = Field(default="text", description="How logs are written.")
    host: str = Field(default="127.0.0.1", description="Where the web door listens.")
    port: int = Field(default=8000, description="And on which port.", ge=0, le=65535)
    short_dumps: Literal["hold", "send"] = Field(
        default="hold", description="What becomes of lists that come short, and what is said of late ones."
    )
    inbound: str = Field(default="", description="Where mail for us is taken in; empty: none is.")
    inbound_domain: str = Field(default="", description="The domain of mail for us.")
    sns_topics: str = Field(default="", description="Amazon's topics whose notices of SES we believe.")
    operator_email: str = Field(default="", description="Who is written to when something is wrong.")
    proxies: int = Field(default=0, description="Proxies of ours before the web door.", ge=0, le=9)

    @field_validator("base_url")
    @classmethod
    def check_base_url(cls, value: str) -> str:
        """Refuse what no link could start with."""
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("write an address such as https://digest.example.org")
        return value.rstrip("/")

    @field_validator("sender")
    @classmethod
    def check_sender(cls, value: str) -> str:
        """Refuse a sender no mail server would take."""
        name, address = parseaddr(value)
        if "@" not in address or any(char in value for char in "\r\n"):
            raise ValueError("write it as: Name <address@example.org>")
        local, _, domain = address.rpartition("@")
        if not local.isascii():
            raise ValueError(f"{local} is outside ASCII, which many mail servers refuse")
        address = address if domain.isascii() else f"{local}@{addresses.ascii_domain(domain)}"
        return f"{name} <{address}>" if name else address

    @field_validator("inbound_domain")
    @classmethod
    def check_inbound_domain(cls, value: str) -> str:
        """Spell it as envelopes do."""
        return value if value.isascii() else addresses.ascii_domain(value)

    @field_validator("mail_url")
    @classmethod
    def check_mail_url(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse a scheme no transport answers to."""
        servers, folders = {"smtp", "smtps", "lmtp"}, {"maildir", "eml", "memory"}
        if value is None or urlsplit(value.get_secret_value()).scheme in folders:
            return value
        if not {urlsplit(url).scheme for url in transport.parted(value.get_secret_value())} <= servers:
            raise ValueError("write smtp://host:587?starttls=true, lmtp://host:24 or maildir:///path")
        try:
            rates.servers_in(transport.shares(value.get_secret_value()))
        except BadField as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return value

    @field_validator("rates", "send_hours", "warm_up", "canary", "stop_at", "timezone")
    @classmethod
    def check_pace(cls, value: str, info: ValidationInfo) -> str:
        """Refuse what cannot be read."""
        reads: dict[str | None, Callable[[str], object]] = {
            "rates": rates.parse,
            "send_hours": partial(rates.hours_in, zone="UTC"),
            "warm_up": partial(rates.warm_up_in, zone="UTC"),
            "canary": rates.canary_in,
            "stop_at": rates.brakes_in,
            "timezone": zone_in,
        }
        try:
            reads[info.field_name](value)
        except BadField as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return value

    @field_validator("signup")
    @classmethod
    def check_signup(cls, value: str) -> str:
        """Refuse a word that is neither open nor closed nor a domain: it would quietly let nobody in."""
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if value.strip() not in {"open", "closed"} and not all("." in part for part in parts):
            raise ValueError("write open, closed, or domains: uni.example, lab.example")
        return value.strip()

    @field_validator("inbound")
    @classmethod
    def check_inbound(cls, value: str) -> str:
        """Refuse what no mail could come in through."""
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
        """Refuse what is the name of no topic."""
        from digest.inbox.notices import is_topic  # with all it stands on: for who names one

        for arn in value.replace(",", " ").split():
            if not is_topic(arn):
                raise ValueError(f"{arn!r} is no topic; write arn:aws:sns:eu-west-1:123456789012:bounces")
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
        """Put the sources in their order of precedence."""
        del dotenv_settings, file_secret_settings
        return (init_settings, env_settings, EnvFileSource(settings_cls), toml_source(settings_cls))

    # ── what follows from them ──────────────────────────────────────────────────────────────────

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
        """Return the broker URL in use; by default the embedded broker's socket."""
        if self.broker_url is not None:
            return self.broker_url.get_secret_value()
        return f"redis+socket://{self.broker_socket}"

    @property
    def broker_socket(self) -> Path:
        """Return where the embedded broker listens."""
        return self.data_dir.absolute() / "broker" / "broker.sock"

    @property
    def dumps(self) -> Path:
        """Return the folder watched for dumps."""
        return self.dumps_dir or self.data_dir / "dumps"

    @property
    def sends_short_dumps(self) -> bool:
        """Return whether lists that come short are loaded as far as they go, and digests say so."""
        return self.short_dumps == "send"

    @property
    def inbound_urls(self) -> tuple[str, ...]:
        """Return where mail for us is taken in."""
        return tuple(self.inbound.replace(",", " ").split())

    @property
    def sns_topic_arns(self) -> frozenset[str]:
        """Return the topics whose notices are believed."""
        return frozenset(self.sns_topics.replace(",", " ").split())

    @property
    def overrides(self) -> Path:
        """Return the folder of the operator's own templates; it need not be there."""
        return self.templates_dir or self.data_dir / "templates"

    @property
    def limits(self) -> Rules:
        """Return how fast mail may go, and when not at all."""
        return Rules(
            rates=rates.parse(self.rates),
            at_once=rates.at_once_in(self.rates),
            servers=rates.servers_in(transport.shares(self.mail)),
            hours=rates.hours_in(self.send_hours, self.timezone),
            warm_up=rates.warm_up_in(self.warm_up, self.timezone),
            canary=rates.canary_in(self.canary),
            brakes=rates.brakes_in(self.stop_at),
        )

    @property
    def is_sample_allowed(self) -> bool:
        """Return whether sample content may exist: only while all mail stays in the local Maildir."""
        return self.mail_url is None and self.database_url is None and Site(url=self.base_url).is_local

    @property
    def may_sign_up(self) -> frozenset[str] | None:
        """Return the domains that may subscribe by themselves; None for everybody, empty for nobody."""
        if self.signup == "open":
            return None
        return frozenset(part.strip().lower() for part in self.signup.split(",") if part.strip() != "closed")

    def site(self) -> Site:
        """Return who we are, with the keys: from the settings, or generated into the data directory."""
        name, address = parseaddr(self.sender)
        ring = self.secret_key.get_secret_value() if self.secret_key else self.kept_secret("secret_key")
        pepper = self.pepper.get_secret_value() if self.pepper else self.kept_secret("pepper")
        return Site(
            name=self.site_name,
            url=self.base_url,
            sender_name=name,
            sender_address=address,
            postal_address=self.postal_address,
            keys=tuple(key.strip().encode() for key in ring.split(",") if key.strip()),
            pepper=pepper.encode(),
            inbound_domain=(self.inbound_domain or address.rpartition("@")[2]) if self.inbound else "",
            owns_up=self.sends_short_dumps,
        )

    def kept_secret(self, name: str) -> str:
        """Return the secret kept in the data directory, made on first use with mode 600.

        It appears with its content in one step: of roles that start together the first makes it for all.
        """
        path = self.data_dir / name
        if not path.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(prefix=f".{name}-", dir=self.data_dir)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))
            with suppress(FileExistsError):
                os.link(made, path)
            Path(made).unlink()
        return path.read_text().strip()


class EnvFileSource(EnvSettingsSource):
    """Reads `DIGEST_X_FILE`: the path of a file that holds the value, as container secrets are given."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Return the content of the named file, or nothing."""
        path = self.env_vars.get(f"{PREFIX}{field_name}_file".lower())
        return (Path(path).read_text().strip() if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return every field given by a file."""
        found = {name: self.get_field_value(None, name)[0] for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


def toml_source(settings_cls: type[BaseSettings]) -> PydanticBaseSettingsSource:
    """Return the settings file of the working directory, else that of the data directory."""
    data_dir = Path(os.environ.get(f"{PREFIX}DATA_DIR", "digest-data"))
    candidates = [Path("digest.toml"), data_dir / "digest.toml"]
    found = next((path for path in candidates if path.is_file()), None)
    return TomlConfigSettingsSource(settings_cls, toml_file=found)


def templates_dir() -> Path:
    """Return the folder of templates: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parent
    packed = package / "_templates"
    return packed if packed.is_dir() else package.parent / "templates"


def load(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings, or raise BadField naming the first that does not fit and where it came from."""
    try:
        return Settings(**{name: value for name, value in (overrides or {}).items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise BadField(f"{PREFIX}{name.upper()}", str(first["msg"]).removeprefix("Value error, ")) from None
    except OSError as error:
        raise BadField(f"{PREFIX}*_FILE", f"{error.filename}: {error.strerror}") from None
