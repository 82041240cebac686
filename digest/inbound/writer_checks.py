"""Find out who wrote a message, and whether a person wrote it. Pure."""

from __future__ import annotations

import re

from digest import addresses
from digest.errors import BadField
from digest.inbound import mail_text, words_around_commands
from digest.inbound.mail_text import ReceivedMail
from digest.letters import figures_in_words, subject_lines
from digest.letters.headers import one_line
from digest.site_profile import Site

#: Local parts of addresses at which no person reads mail (RFC 3834, 5.2).
AUTOMATIC_SENDERS = re.compile(
    r"(?:mailer-daemon|postmaster|.*\bno-?reply|.*do-?not-?reply|owner-.*|.*-(?:request|owner|bounces?))(?:\+.*)?$",
    re.IGNORECASE,
)
#: Text that mail programs may turn into links.
ADVERTISING = re.compile(r"[/\\@]|\w\.\w\w|\+?\d[\d ()-]{6,}")
WEB_ADDRESS = re.compile(r"https?://|\bwww\.", re.IGNORECASE)
MAX_LINES_SEARCHED = 200  #: maximum number of lines in a stranger's mail that are searched for links
#: The headers in which upstream mail servers mark spam and forgeries, with a pattern for each value.
SPAM_HEADERS = {
    "X-Spam-Flag": re.compile(r"yes", re.IGNORECASE),
    "X-Spam-Status": re.compile(r"yes", re.IGNORECASE),
    "X-Spam": re.compile(r"yes", re.IGNORECASE),
    "Authentication-Results": re.compile(r".*\bdmarc=fail\b", re.IGNORECASE | re.DOTALL),
    "Subject": re.compile(r"\W*spam\W", re.IGNORECASE),
}


class MailIgnored(Exception):
    """The reason why a message is neither processed nor answered, but kept for the operator to read."""


def address_of_writer(site: Site, mail: ReceivedMail) -> str:
    """Return the address in the From line; raise MailIgnored unless it is a single address of a person."""
    named = mail_text.writers_of(mail)
    try:
        ((_name, address),) = named
        email = addresses.parse_address(address).email
    except (ValueError, BadField):
        raise MailIgnored("the From line does not name one address") from None
    if AUTOMATIC_SENDERS.match(email.rpartition("@")[0]) or is_own_address(site, email):
        raise MailIgnored("no person would read a reply")
    return email


def is_own_address(site: Site, email: str) -> bool:
    """Return whether this is one of the addresses at which we receive mail."""
    local, _, domain = email.lower().rpartition("@")
    if domain != site.domain.lower():
        return False
    return local == site.mailbox or local.startswith((f"{site.mailbox}-", f"{site.mailbox}+"))


def is_marked_as_spam(mail: ReceivedMail) -> bool:
    """Return whether an upstream mail server marked a message as spam or as forged."""
    return any(
        sign.match(value)
        for name, sign in SPAM_HEADERS.items()
        for value in mail_text.header_values(mail, name)
    )


def reads_as_automatic(mail: ReceivedMail) -> bool:
    """Return whether a message contains a phrase that is typical of automatic replies.

    This catches automatic replies without the headers that mark such mail.
    """
    text = "\n".join([mail_text.header_value(mail, "Subject"), *mail_text.written_lines(mail)])
    return bool(
        words_around_commands.AUTOMATIC_REPLY_PHRASE.search(text[: words_around_commands.MAX_CHARS_SEARCHED])
    )


def has_links(mail: ReceivedMail) -> bool:
    """Return whether the subject or the text that the sender wrote contains a web address."""
    text = "\n".join(
        [mail_text.header_value(mail, "Subject"), *mail_text.written_lines(mail, MAX_LINES_SEARCHED)]
    )
    return bool(WEB_ADDRESS.search(text))


def answered_mail(mail: ReceivedMail) -> dict[str, str]:
    """Return those fields of a message that our answer needs: its subject and its Message-ID."""
    subject = words_around_commands.without_prefixes(one_line(mail_text.header_value(mail, "Subject")))
    return {
        "answered_subject": safe_quote(subject),
        "answered_id": mail_text.header_value(mail, "Message-ID").strip(),
    }


def safe_quote(text: str) -> str:
    """Return a quotation from a message for our reply, or "" if the quotation may be forged advertising."""
    return (
        ""
        if ADVERTISING.search(text)
        else figures_in_words.cut_at_word(text, subject_lines.MAX_SUBJECT_LENGTH)
    )
