"""Recognise addresses for commands: `digest@`, `digest-subscribe@`, reply addresses of letters. Pure."""

from __future__ import annotations

from dataclasses import replace

from digest.inbound import find_commands
from digest.inbound.find_commands import ReadMail
from digest.inbound.mail_commands import KIND_OF_WORD, Command, Subscribe
from digest.inbound.mail_text import ReceivedMail
from digest.site import links
from digest.site.site_profile import Site

#: The commands that the address of a message alone can give, keyed by the word after the mailbox's name, as
#: in Mailman.
KINDS = {word: KIND_OF_WORD[word] for word in ("subscribe", "join", "unsubscribe", "leave", "help")}
REQUEST = "request"  #: the word in Mailman's address for commands that are in the text


def takes_commands_at(site: Site, recipient: str) -> bool:
    """Return whether mail to this address may contain commands, or the address itself gives one."""
    if recipient.lower() == site.sender_address.lower():
        return True
    word = word_of_address(site, recipient)
    return (
        word == REQUEST
        or word in KINDS
        or links.read_reply_address(site, recipient) is not None
        or links.read_confirm_address(site, recipient) is not None
    )


def word_of_address(site: Site, recipient: str) -> str:
    """Return the word after the mailbox's name, such as `leave` in `digest-leave@`, or "" without one."""
    local, _, domain = recipient.lower().rpartition("@")
    is_own = domain == site.domain.lower() and local.startswith((f"{site.mailbox}-", f"{site.mailbox}+"))
    return local[len(site.mailbox) + 1 :] if is_own else ""


def read_at(site: Site, recipient: str, message: ReceivedMail) -> ReadMail:
    """Return the commands of a message: the command given by its address, and the commands in its text.

    In mail to a `subscribe` address, only the settings for the sign-up are read. In mail to another address with
    a command, no text is read.
    """
    word = word_of_address(site, recipient)
    if (kind := KINDS.get(word)) is None:
        return find_commands.read_commands(message)
    given = Command(kind=kind, line=word)
    if kind is not Subscribe:
        return ReadMail(commands=(given,))
    read = find_commands.read_commands(message, first=given)
    asks = any(one.kind is Subscribe and one.argument for one in read.commands)
    return replace(read, commands=read.commands[1:]) if asks else read


def asks_to_subscribe(site: Site, recipient: str, message: ReceivedMail) -> bool:
    """Return whether a command of a message subscribes the writer."""
    if not takes_commands_at(site, recipient):
        return False
    return any(one.kind is Subscribe for one in read_at(site, recipient, message).commands)
