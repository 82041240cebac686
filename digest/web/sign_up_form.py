"""Read the sign-up form: an address, topics from up to four sources, and a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from starlette.datastructures import FormData

from digest.errors import BadField, UsageError
from digest.subscribers import reader_settings
from digest.subscribers.reader_settings import SETTINGS, Setting
from digest.topics.example_words import MAX_STORED
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web.visits import Visit, clean_text

MAX_LIKED = 20  #: maximum number of liked papers from which a topic is made
MAX_OFFERED = 12  #: maximum number of offered topics
#: Maximum number of characters read from a filter; more than allowed, so that a longer filter is reported.
MAX_FILTER = 2001
MAX_NAME = 80
MAX_CHOICE = 80
MAX_ID = 2**63
#: The fields that the page hides, and that do not count, while "Papers on any subject" is chosen.
TOPIC_FIELDS = frozenset({"interest", "offered", "topic", "filter", "library"})


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTopic:
    """A topic from a library or a forwarded digest; the form contains it, because the server does not store it."""

    name: str
    filter: str

    @property
    def value(self) -> str:
        """Return the topic as the value of a form field."""
        return f"{self.name}\n{self.filter}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SignUpForm:
    """The values submitted in the form, with which the form is filled in if it is shown again."""

    email: str = ""
    interests: tuple[str, ...] = ()  #: names of the chosen starter topics
    liked: tuple[int, ...] = ()  #: ids of papers
    offered: tuple[OfferedTopic, ...] = ()  #: topics from a library or a forwarded digest
    kept: frozenset[str] = frozenset()  #: the values of those topics in `offered` that the visitor chose
    filter: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)  #: the settings as typed
    is_open: bool = False  #: whether the section with the topics is shown
    stamp: str = ""  #: the stamp of the time when the form was loaded first
    library: str = ""  #: what was read from the uploaded library, as a sentence

    @property
    def has_topics(self) -> bool:
        """Return whether the visitor chose any topic."""
        return bool(self.interests or self.liked or self.kept or self.filter)

    @property
    def chosen_topics(self) -> tuple[OfferedTopic, ...]:
        """Return the offered topics that the visitor chose."""
        return tuple(one for one in self.offered if one.value in self.kept)


EMPTY_FORM = SignUpForm(texts=reader_settings.defaults())


def read(visit: Visit) -> SignUpForm:
    """Return the submitted form, with defaults for the fields that were not sent."""
    form, interests = visit.form, set(visit.form.getlist("interest"))
    return SignUpForm(
        email=visit.field("use", 321) or visit.field("email", 321),
        is_open=visit.field("on") == "topics",
        stamp=visit.field("made"),
        interests=tuple(name for name in STARTER_TOPICS if name in interests),
        liked=tuple(paper_ids(form.getlist("like"))),
        offered=tuple(offered_topics(form.getlist("offered"))),
        kept=frozenset(one.value for one in offered_topics(form.getlist("topic"))),
        filter=visit.field("filter", MAX_FILTER),
        texts={
            one.name: visit.field(one.name, MAX_CHOICE) if one.name in form else one.default
            for one in offered_settings()
        },
    )


def with_shown_fields(visit: Visit) -> Visit:
    """Return the visit with the submitted fields, but for those that the page hid."""
    is_hidden = visit.field("on") == "all"
    fields = visit.form.multi_items()
    shown = [(name, value) for name, value in fields if not (is_hidden and name in TOPIC_FIELDS)]
    return replace(visit, form=FormData(shown))


def offered_settings() -> list[Setting]:
    """Return the settings that the form offers."""
    return [setting for setting in SETTINGS.values() if setting.is_at_sign_up]


def paper_ids(values: Iterable[object]) -> list[int]:
    """Return the ids among the form values, each once."""
    numbers = [int(text) for text in map(str, values) if text.isascii() and text.isdigit() and len(text) < 20]
    return list(dict.fromkeys(number for number in numbers if number < MAX_ID))[:MAX_LIKED]


def offered_topics(values: Iterable[object]) -> list[OfferedTopic]:
    """Return the topics that an earlier page offered; malformed values are left out."""
    found = dict.fromkeys(
        OfferedTopic(name=" ".join(name.split())[:MAX_NAME], filter=text.strip()[:MAX_STORED])
        for name, _, text in (clean_text(value).replace("\r", "").partition("\n") for value in values)
    )
    return [one for one in found if one.name and one.filter][:MAX_OFFERED]


# ── the settings ────────────────────────────────────────────────────────────────────────────────


def check_settings(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the valid settings among these, and a sentence about each of the others."""
    valid, errors = dict[str, str](), dict[str, str]()
    for name, text in texts.items():
        try:
            valid[name] = reader_settings.check_text(name, text)
        except BadField as error:
            errors[name] = error_sentence(error) if text else "Fill this in."
    return valid, errors


def error_sentence(error: UsageError) -> str:
    """Return an error as a sentence without the field's name, since the page shows it next to the field."""
    text = str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)
    return text[:1].upper() + text[1:]
