"""Define the settings and resources for processing incoming mail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from digest.app_context import AppContext
from digest.letters.dkim_verification import Lookup
from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.publishing import welcome_papers
from digest.site.site_profile import Site
from digest.subscribers.welcome_letters import ChoosePapers

MaySignUp = frozenset[str] | None  #: domains whose addresses may subscribe; None allows every domain
NOBODY: frozenset[str] = frozenset()


def no_lookup(name: str) -> list[str]:
    """Return no DKIM keys, so that DKIM can prove no sender."""
    del name
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class MailRules:
    """The settings and resources for processing incoming mail."""

    may_sign_up: MaySignUp = NOBODY
    lookup: Lookup = no_lookup  #: the function that looks up DKIM keys in the DNS
    #: our mail server's name in Authentication-Results headers; if empty, these headers are not trusted
    authserv_id: str = ""
    #: the operator's address, to which mail without commands is passed on; if empty, such mail is not passed on
    operator: str = ""
    caches: Caches = field(default_factory=Caches)
    templates: Templates | None = None  #: the templates needed to explain why a paper was or was not sent
    #: a function that prepares the choice of papers for welcome letters
    prepare_welcome: Callable[[], ChoosePapers] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MailContext:
    """What the processing of one message needs: the database, the site, the rules and the time."""

    session: Session
    site: Site
    rules: MailRules
    now: datetime


def rules_of(context: AppContext, lookup: Lookup | None = None) -> MailRules:
    """Return the rules that an app context sets, with the context's DNS lookup unless `lookup` is given."""

    def prepare_welcome() -> ChoosePapers:
        with context.read_session() as session:
            return welcome_papers.welcome_chooser(context.publication(session, context.clock()))

    return MailRules(
        may_sign_up=context.settings.signup,
        lookup=lookup or context.lookup,
        authserv_id=context.settings.authserv_id,
        operator=context.settings.operator_email,
        caches=context.caches,
        templates=context.templates,
        prepare_welcome=prepare_welcome,
    )
