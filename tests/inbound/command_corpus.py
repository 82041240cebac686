"""List a hundred invented mails of readers, strangers and machines, each with the expected result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage

READER, STRANGER = "ada@uni.example", "bob@else.example"
US = "digest@example.org"


@dataclass(frozen=True, kw_only=True, slots=True)
class MailCase:
    """A mail and its expected result."""

    sender: str = READER
    envelope: str = "writer@else.example"  #: the sender in the envelope
    to: str = US
    subject: str = ""
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""  #: the whole mail, if its form matters
    letters: Sequence[str] = ()  #: the kinds of letters that come back
    says: str = ""  #: in the letter that comes back
    sign_up: str | None = None  #: the topics of the queued sign-up, as JSON text; None: no sign-up

    def __str__(self) -> str:
        named = f"{self.subject} | {self.body[:60]}" if self.subject or self.body else str(self.raw[60:140])
        return f"{named} {self.to} {self.envelope} {dict(self.headers)}"

    def content(self) -> bytes:
        """Return the mail as it travels."""
        if self.raw:
            return self.raw
        mail = EmailMessage()
        mail["From"], mail["To"] = f"A Reader <{self.sender}>", self.to
        mail["Subject"] = self.subject
        mail["Message-ID"] = "<note@else.example>"
        for name, value in self.headers.items():
            mail[name] = value
        mail.set_content(self.body)
        return mail.as_bytes(policy=policy.SMTP)


def reads(body: str, says: str, *, subject: str = "") -> MailCase:
    """A command of a reader in the body, and a part of the reply."""
    return MailCase(body=body, letters=["reply"], says=says, subject=subject)


def raw(kind: str, body: bytes, says: str, *, letter: str = "reply", subject: str = "") -> MailCase:
    """A reader's mail whose body is in a particular form."""
    top = f"From: {READER}\r\nTo: {US}\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\nContent-Type: {kind}\r\n"
    return MailCase(raw=top.encode() + b"\r\n" + body, letters=[letter], says=says)


def writes(
    body: str = "",
    letters: Sequence[str] = (),
    *,
    sign_up: str | None = None,
    subject: str = "",
    to: str = US,
) -> MailCase:
    """A mail of a stranger."""
    return MailCase(sender=STRANGER, to=to, subject=subject, body=body, letters=letters, sign_up=sign_up)


def machine(
    body: str = "help", *, sender: str = READER, envelope: str = "x@else.example", **headers: str
) -> MailCase:
    """A mail that must not be answered."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return MailCase(sender=sender, envelope=envelope, body=body, headers=named)


SAVE = "Open the link below and press Save to confirm."
EXAMPLES = "Examples of what"
SHORT = "Thank you for your message. A program reads this address"
BIG = b"QUJD" * 350_000  #: a megabyte of an attachment

OF_READERS = [
    reads("add robots: robot*", SAVE),
    reads("add flow matching", SAVE),
    reads("add cat:cs.LG AND ti:diffusion", SAVE),
    reads("Please add robots: robot learning", SAVE),
    reads("add robots: (robot OR", "Add a word after OR."),
    reads("drop flows", SAVE),
    reads("del Flows", SAVE),
    reads("delete flows.", SAVE),
    reads("remove flows", SAVE),
    reads("del 1", SAVE),
    reads("del 2", "You have no topic of that name. Yours are: Flows"),
    reads("drop robots", "Yours are: Flows"),
    reads("list", "1. Flows: flow matching"),
    reads("topics", "1. Flows: flow matching"),
    reads("show", "1. Flows: flow matching"),
    reads("settings", "1. Flows: flow matching"),
    reads("status", "Your digest: Every day at 08:00"),
    reads("daily", SAVE),
    reads("weekdays at 7:30", SAVE),
    reads("weekly fri", SAVE),
    reads("weekly on Friday at 9am", SAVE),
    reads("monthly", SAVE),
    reads("at 9am", SAVE),
    reads("at 8:00", SAVE),
    reads("at 21:30 Europe/Oslo", SAVE),
    reads("at 8:00 Europe/Olso", "Did you mean Europe/Oslo?"),
    reads("at noon", SAVE),
    reads("at dawn", "Not understood. Write: weekly fri at 8:00"),
    reads("fri", SAVE),
    reads("9am", SAVE),
    reads("Europe/Oslo", SAVE),
    reads("pause", "Paused until 27 November 2026."),
    reads("pause for two weeks", "Paused until 4 December 2026."),
    reads("pause until 6 January", "Paused until 6 January 2027."),
    reads("pause until January 6", "Paused until 6 January 2027."),
    reads("pause until 2026-11-01", "is not in the future"),
    reads("Pause 10 days, please. Thanks!", "Paused until 30 November 2026."),
    reads("vacation 3 weeks", "Paused until 11 December 2026."),
    reads("resume", "You were not paused."),
    reads("confirm", "There is nothing to confirm. You are subscribed already."),
    reads("subscribe", "You are subscribed already."),
    reads("subscribe robots: robot*", SAVE),
    reads("help pause", "pause until 6 January"),
    MailCase(body="help", letters=["help"], says="weekly fri at 8:00"),
    MailCase(subject="help", letters=["help"], says="pause 2 weeks"),
    MailCase(subject="HELP!", letters=["help"], says="drop flows"),
    MailCase(to="digest-help@example.org", body="anything", letters=["help"], says="list"),
    MailCase(to="digest-request@example.org", body="list", letters=["reply"], says="1. Flows"),
    MailCase(to="digest+leave@example.org", body="See you!", letters=["goodbye"], says="Undo"),
    MailCase(to="digest-unsubscribe@example.org", letters=["goodbye"], says="Undo"),
    reads("pause 2 weeks\nadd robots: robot*\nlist\n", "Paused until 4 December 2026."),
    reads("> quoted\nlist", "1. Flows"),
    reads("On Fri, 20 Nov 2026 at 08:00, Digest <digest@example.org> wrote:\n> help\n> stop\n\nlist\n", "1. Flows"),
    reads("list\n\nOn Fri, 20 Nov 2026 at 08:00, Digest wrote:\n> stop\n", "1. Flows", subject="Re: papers"),
    reads("Hello,\n\nlist\n\n-- \nAda\nstop\n", "1. Flows"),
    raw("text/html; charset=utf-8", b"<p>Hi,</p><p>list</p><blockquote>stop</blockquote>", "1. Flows"),
    raw("text/html", b"<div style='display: none'>stop</div><p>list</p><p style=visibility:hidden>pause</p>", "1. Flows"),
    raw("text/html", b"<html><head><style>p{}</style></head><body><div>pause&nbsp;2 weeks</div></body></html>", "Paused until 4"),
    raw("text/plain; charset=iso-8859-1", "add élan: ökonomie".encode("latin-1"), SAVE),
    raw("text/plain; charset=koi8-r", "list\n\nСпасибо".encode("koi8-r"), "1. Flows"),
    raw("text/plain; charset=gb2312", "list\n谢谢".encode("gb2312"), "1. Flows"),
    raw("text/plain; charset=utf-16", "list\n".encode("utf-16"), "1. Flows"),
    raw("text/plain; charset=x-unknown", b"list\n", "1. Flows"),
    raw("text/plain; charset=us-ascii", "list\n\nGrüße".encode(), "1. Flows"),
    raw("text/plain\r\nContent-Transfer-Encoding: base64", b"bGlzdAo=", "1. Flows"),
    raw("text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable", b"add flows=3A flow=\r\n matching", SAVE),
    raw("multipart/mixed; boundary=b", b"--b\r\nContent-Type: text/plain\r\n\r\nlist\r\n--b\r\nContent-Type: application/pdf\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + BIG + b"\r\n--b--\r\n", "1. Flows"),
    raw("multipart/alternative; boundary=b", b"--b\r\nContent-Type: text/plain\r\n\r\nlist\r\n--b\r\nContent-Type: text/html\r\n\r\n"
        b"<p>stop</p>\r\n--b--\r\n", "1. Flows"),
    raw("image/png", b"\x89PNG", "1. Flows", subject="list"),
    raw("text/plain", b"", EXAMPLES, letter="no_command"),
    raw("text/plain", b"a " * 500_000, EXAMPLES, letter="no_command"),
    raw("text/plain", b"pause 2 weeks" + b" thanks" * 4_000, "Paused until 4 December 2026."),
    raw("text/plain", b"", EXAMPLES, letter="no_command", subject="Re: " * 5_000 + "papers"),
    MailCase(subject="Thank you", body="I like it very much!", letters=["no_command"], says=SHORT),
    MailCase(subject="Re: papers", body="👍", letters=["no_command"], says=SHORT),
    MailCase(body="I am out of the office.", letters=["no_command"], says="To pause your digests, reply for example"),
]  # fmt: skip

HOW = ["how_to_subscribe"]
OF_STRANGERS = [
    writes("help", HOW),
    writes("Could you please subscribe me to your papers?", HOW),
    writes("flow matching", HOW),
    writes("Hello, who makes this? I would like to use it in a course.", HOW),
    writes("unsubscribe", HOW),
    writes("pause 2 weeks", HOW),
    writes("", HOW),
    writes("", HOW, to="digest-leave@example.org"),
    writes("", HOW, subject="Re: Flow matching on meshes"),
    writes("subscribe", sign_up="{}"),
    writes("please subscribe me", sign_up="{}"),
    writes("", subject="Subscribe", sign_up="{}"),
    writes("subscribe A Reader", sign_up="{}"),
    writes("subscribe flow matching", sign_up='{"topics":{"flow matching":"about:\\"flow matching\\""}}'),
    writes("subscribe to robotics", sign_up='{"topics":{"robotics":"robotics"}}'),
    writes("subscribe flows: flow matching", sign_up='{"topics":{"flows":"about:\\"flow matching\\""}}'),
    writes('subscribe A Reader ti:flow', sign_up='{"topics":{"ti:flow":"ti:flow"}}'),
    writes("subscribe robots robot* OR ti:arm", sign_up='{"topics":{"robots":"robot* OR ti:arm"}}'),
    writes("subscribe cs.LG", sign_up='{"topics":{"cs.LG":"cs.LG"}}'),
    writes("add robots: robot*", subject="subscribe", sign_up='{"topics":{"robots":"robot*"}}'),
    writes("See https://win.example now", subject="Cheap ink"),
    writes("subscribe and save 50 % today https://win.example"),
]  # fmt: skip

OF_MACHINES = [
    machine(sender=US),
    machine(sender="digest-leave@example.org"),
    machine(sender="no-reply@uni.example"),
    machine(sender="MAILER-DAEMON@uni.example"),
    machine(sender="owner-list@uni.example"),
    machine(envelope=""),
    machine(Auto_Submitted="auto-generated"),
    machine(Precedence="list"),
    machine(List_Id="<papers.example.org>"),
    machine(X_Spam_Flag="YES"),
    machine(Authentication_Results="mx.example.org; dmarc=fail header.from=uni.example"),
    MailCase(subject="Automatic reply: papers", body="I am out of the office."),
]

ALL = [*OF_READERS, *OF_STRANGERS, *OF_MACHINES]
