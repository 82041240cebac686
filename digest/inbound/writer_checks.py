"""Find out who wrote a message, and whether a person wrote it. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from digest.errors import BadField
from digest.inbound import mail_text, words_around_commands
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.words_around_commands import MAX_CHARS_SEARCHED, pattern_of
from digest.letters.figures_in_words import cut_at_word
from digest.letters.headers import one_line
from digest.letters.subject_lines import MAX_SUBJECT_LENGTH
from digest.mail import addresses, mail_parsing
from digest.site.site_profile import Site

#: Local parts of addresses at which no person reads mail (RFC 3834, 5.2).
AUTOMATIC_SENDERS = pattern_of("automatic_senders", after=r"(?:\+.*)?$")
#: Text that mail programs may turn into links, but not `cs.CL`, `2411.01234`, `7.30` or `Europe/Oslo`.
LINK = re.compile(
    r"\S*(?:://|\\\\|@|www\.)\S*"
    r"|(?<![\w.-])(?!(?:\w+:)?(?:cs|math|stat|eess|econ|nlin|physics|q-bio|q-fin|astro-ph|cond-mat)\.[A-Za-z-]{2,}\b)"
    r"[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?:/\S*)?"
    r"|\+\d[\d ()-]{6,}|\b(?!\d{4}-\d\d-\d\d\b)\d[\d ()-]{8,}",
    re.IGNORECASE,
)
#: Matches an address in a Received header.
BRACKETED = re.compile(r"\[(?:IPv6:)?([0-9A-Fa-f.:]{2,45})\]")
MAX_QUOTED = 300  #: maximum number of characters of a line that an answer quotes
WEB_ADDRESS = re.compile(r"https?://|\bwww\.", re.IGNORECASE)
MAX_LINES_SEARCHED = 200  #: maximum number of lines in a stranger's mail that are searched for links
FORGED = re.compile(r"\bdmarc=fail\b", re.IGNORECASE)  #: in the results of a mail server upstream
#: The headers in which upstream mail servers mark spam, with a pattern for each value.
SPAM_HEADERS = dict.fromkeys(
    ("X-Spam-Flag", "X-Spam-Status", "X-Spam"), re.compile(r"yes", re.IGNORECASE)
) | {"Subject": re.compile(r"\W*spam\W", re.IGNORECASE)}


class MailIgnored(Exception):
    """The reason why a message is neither processed nor answered, but kept for the operator to read."""


def address_of_writer(site: Site, message: ReceivedMail) -> str:
    """Return the address in the From line; raise MailIgnored unless it is a single address of a person."""
    named = mail_text.writers_of(message)
    try:
        ((_name, address),) = named
        email = addresses.parse_address(address).email
    except (ValueError, BadField):
        raise MailIgnored("the From line does not name one address") from None
    if AUTOMATIC_SENDERS.match(email.rpartition("@")[0]) or site.is_own_address(email):
        raise MailIgnored("no person would read a reply")
    return email


def sending_network(message: ReceivedMail | None) -> str:
    """Return the network that sent a message: an IPv4 address or an IPv6 /64; "" if it is unknown.

    The mail server in front adds the topmost Received header, in which its client's address is the last in
    brackets before `by`.
    """
    received = next(iter(mail_parsing.raw_headers(message.message, "Received") if message else ()), "")
    found = BRACKETED.findall(received.partition(" by ")[0])
    try:
        address = ip_address(found[-1] if found else "")
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address) if address.version == 4 else str(ip_network(f"{address}/64", strict=False))


def check_person(message: ReceivedMail, *, may_be_automatic: bool = False) -> None:
    """Raise MailIgnored for a message that is marked as spam or as forged, or that a mail program wrote."""
    if is_marked_as_spam(message):
        raise MailIgnored("the mail is marked as spam or as forged")
    if not may_be_automatic and is_automatic(message):
        raise MailIgnored("a mail program wrote the message")


def is_marked_as_spam(message: ReceivedMail) -> bool:
    """Return whether an upstream mail server marked a message as spam or as forged."""
    return is_forged(message) or any(
        sign.match(mail_parsing.decoded_words(value))
        for name, sign in SPAM_HEADERS.items()
        for value in mail_parsing.raw_headers(message.message, name)
    )


def is_forged(message: ReceivedMail) -> bool:
    """Return whether a mail server found that the From line is forged (DMARC)."""
    return any(map(FORGED.search, mail_parsing.raw_headers(message.message, "Authentication-Results")))


def is_automatic(message: ReceivedMail) -> bool:
    """Return whether a mail program wrote a message: by its subject, or since it asks the sender for a proof."""
    subject = mail_parsing.header_text(message.message, "Subject")
    text = "\n".join([subject, *mail_text.written_lines(message)])
    is_challenge = words_around_commands.CHALLENGE.search(text[:MAX_CHARS_SEARCHED])
    return bool(
        words_around_commands.AUTOMATIC_SUBJECT.match(subject) or (is_challenge and has_links(message))
    )


def reads_as_automatic(message: ReceivedMail) -> bool:
    """Return whether a message contains a phrase of automatic replies, which people write, too."""
    text = "\n".join(
        [mail_parsing.header_text(message.message, "Subject"), *mail_text.written_lines(message)]
    )
    return bool(words_around_commands.AUTOMATIC_REPLY_PHRASE.search(text[:MAX_CHARS_SEARCHED]))


def has_links(message: ReceivedMail) -> bool:
    """Return whether the subject or the text that the sender wrote contains a web address."""
    lines = mail_text.written_lines(message, MAX_LINES_SEARCHED)
    return bool(WEB_ADDRESS.search("\n".join([mail_parsing.header_text(message.message, "Subject"), *lines])))


def answered_mail(message: ReceivedMail) -> dict[str, str]:
    """Return those fields of a message that our answer needs: its subject and its Message-ID."""
    subject = words_around_commands.without_prefixes(
        one_line(mail_parsing.header_text(message.message, "Subject"))
    )
    return {
        "answered_subject": "" if LINK.search(subject) else cut_at_word(subject, MAX_SUBJECT_LENGTH),
        "answered_id": mail_parsing.header_text(message.message, "Message-ID").strip(),
    }


def quote(text: str, *, is_proven: bool = False) -> str:
    """Return a quotation for our answer; without links if the From line may be forged to send advertising."""
    return cut_at_word(text if is_proven else without_links(text), MAX_QUOTED)


def without_links(text: str) -> str:
    """Return a text in which an ellipsis replaces addresses, links and telephone numbers."""
    return LINK.sub("…", text)
