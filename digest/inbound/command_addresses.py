"""Recognise addresses for commands: `digest@`, `digest-subscribe@`, reply addresses of letters. Pure."""

from __future__ import annotations

from types import MappingProxyType

from digest import links
from digest.inbound import find_commands
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.mail_text import ReceivedMail
from digest.site_profile import Site

#: The commands that the address of a message alone can give, keyed by the word after the mailbox's name, as
#: in Mailman.
VERBS = MappingProxyType(
    {
        "subscribe": Verb.SUBSCRIBE,
        "join": Verb.SUBSCRIBE,
        "unsubscribe": Verb.UNSUBSCRIBE,
        "leave": Verb.UNSUBSCRIBE,
        "help": Verb.HELP,
    }
)
REQUEST = "request"  #: the word in Mailman's address for commands that are in the text


def takes_commands_at(site: Site, recipient: str) -> bool:
    """Return whether mail to this address may contain commands, or the address itself gives one."""
    if recipient.lower() == site.sender_address.lower():
        return True
    word = word_of_address(site, recipient)
    return (
        word == REQUEST
        or word in VERBS
        or links.read_reply_address(site, recipient) is not None
        or links.read_confirm_address(site, recipient) is not None
    )


def word_of_address(site: Site, recipient: str) -> str:
    """Return the word after the mailbox's name, such as `leave` in `digest-leave@`, or "" without one."""
    local, _, domain = recipient.lower().rpartition("@")
    is_own = domain == site.domain.lower() and local.startswith((f"{site.mailbox}-", f"{site.mailbox}+"))
    return local[len(site.mailbox) + 1 :] if is_own else ""


def commands_in(site: Site, recipient: str, mail: ReceivedMail) -> list[Command]:
    """Return the commands of a message: the command given by its address, and the commands in its text.

    In mail to a `subscribe` address, only topics are read. In mail to another address with a command, no text
    is read.
    """
    verb = VERBS.get(word_of_address(site, recipient))
    if verb is None:
        return find_commands.parse_commands(mail)
    found = find_commands.parse_commands(mail) if verb is Verb.SUBSCRIBE else []
    given = [one for one in found if one.verb is Verb.SUBSCRIBE][:1] or [Command(verb=verb, line=verb)]
    return [*given, *(one for one in found if one.verb is Verb.ADD)]


def asks_to_subscribe(site: Site, recipient: str, mail: ReceivedMail) -> bool:
    """Return whether the first command of a message subscribes the writer or a group."""
    if not takes_commands_at(site, recipient):
        return False
    commands = commands_in(site, recipient, mail)
    return bool(commands) and commands[0].verb in {Verb.SUBSCRIBE, Verb.GROUP}
