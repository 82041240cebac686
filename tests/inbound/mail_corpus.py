"""List a hundred invented mails to the sender of digests, of which fifty must unsubscribe and fifty must not."""

from __future__ import annotations

from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from textwrap import dedent
from typing import Any

WRITER = "ada@uni.example"
US = "digest@example.org"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusMail:
    """One mail, as a person or a machine writes it."""

    subject: str = ""
    body: str = ""
    html: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    is_answered: bool = False  #: a question comes back: what is meant is not clear, and a person seems to ask
    has_no_command: bool = False  #: examples of commands come back

    @property
    def letters(self) -> list[str]:
        """Return the letters that come back, unless the mail unsubscribes."""
        return ["reply"] if self.is_answered else ["no_command"] if self.has_no_command else []

    def __str__(self) -> str:
        return f"{self.subject} | {self.body.strip()[:40]}".replace("\n", " / ")

    def content(self) -> bytes:
        """Return the mail as it travels."""
        mail = EmailMessage()
        mail["From"], mail["To"] = f"Ada Ito <{WRITER}>", US
        mail["Subject"], mail["Message-ID"] = self.subject, "<note@uni.example>"
        for name, value in self.headers.items():
            mail[name] = value
        mail.set_content(dedent(self.body), subtype="html" if self.html else "plain")
        return mail.as_bytes(policy=policy.SMTP)


def acts(subject: str = "", body: str = "", *, html: bool = False, **headers: str) -> CorpusMail:
    """A mail that only asks to unsubscribe."""
    return CorpusMail(subject=subject, body=body, html=html, headers=named(headers))


def asks(subject: str = "", body: str = "", **headers: str) -> CorpusMail:
    """A mail that a person may have meant as an unsubscribe or as something else."""
    return CorpusMail(subject=subject, body=body, headers=named(headers), is_answered=True)


def plain(subject: str = "", body: str = "", **headers: str) -> CorpusMail:
    """A person's mail without a command, which is answered with examples of commands."""
    return CorpusMail(subject=subject, body=body, headers=named(headers), has_no_command=True)


def quiet(subject: str = "", body: str = "", *, html: bool = False, **headers: str) -> CorpusMail:
    """An automatic mail or spam, which gets no answer."""
    return CorpusMail(subject=subject, body=body, html=html, headers=named(headers))


def named(headers: dict[str, str]) -> dict[str, str]:
    """Return headers by the names they have in mail."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


QUOTED = """

    On Fri, 20 Nov 2026 at 08:00, Example Digest
    <digest@example.org> wrote:
    > Flow matching on meshes
    > Cancel any time: https://digest.example.org/u/x
    """

MUST_ACT = [
    # the bare word, as the subject
    acts("unsubscribe"),
    acts("Unsubscribe"),
    acts("UNSUBSCRIBE!!!"),
    acts("  unsubscribe. "),
    acts("Unsubscribe me"),
    acts("Unsubscribe me please"),
    acts("Please unsubscribe me, thank you"),
    acts("please unsubscribe"),
    acts("unsubscribe, thanks"),
    acts('"unsubscribe"'),
    acts("signoff"),
    acts("stop"),
    acts("STOP"),
    acts("Stop please"),
    acts("cancel"),
    acts("Cancel, please."),
    acts("leave"),
    acts("Leave, thanks a lot"),
    acts("cancel my subscription"),
    acts("remove me"),
    acts("Please remove me from this mailing list"),
    acts("unsubscribe me from this list please"),
    acts(f"unsubscribe {WRITER}"),
    acts("Unsubscribe Ada Ito"),
    # in the body, with what people and their programs put around it
    acts("", "unsubscribe\n"),
    acts("", "STOP\n"),
    acts("Your papers", "Unsubscribe me please.\n"),
    acts("unsubscribe", "unsubscribe\n"),
    acts("", "Hi,\n\nplease unsubscribe me.\n\nThanks,\nAda\n"),
    acts("", "Dear Example Digest team,\n\nUnsubscribe, please.\n\nKind regards\nAda Ito\n"),
    acts("", "stop\n\n-- \nAda Ito\nUniversity of Example\n+47 555 01 234\n"),
    acts("", "Leave\n\nAda Ito\nProfessor, University of Example\nada@uni.example\n"),
    acts("Cancel", "\nBest wishes\nAda\nI work flexible hours and do not expect an answer in yours.\n"),
    acts("", "unsubscribe\n\nSent from my phone\n"),
    acts("stop", "Von meinem Telefon gesendet\n"),
    acts("", "unsubscribe\nI have changed fields and read other things now.\n"),
    acts("Unsubscribe", "It was good while it lasted. Please do not take it amiss.\n"),
    # as an answer, with the letter below it
    acts("Re: Flow matching on meshes, and 4 more", f"unsubscribe\n{QUOTED}"),
    acts(
        "AW: Flow matching on meshes, and 4 more",
        "stop\n\nAm 20.11.2026 um 08:00 schrieb Example Digest:\n> cancel\n",
    ),
    acts(
        "SV: Flow matching on meshes",
        "leave\n\n-----Ursprungligt meddelande-----\nFrån: Example Digest\nHej\n",
    ),
    acts(
        "RE: Flow matching on meshes",
        "Please stop\n\nFrom: Example Digest <digest@example.org>\nSent: Friday\n\nPapers\n",
    ),
    acts("Odp: Flow matching", "cancel\n\nW dniu 20.11.2026 o 08:00 Example Digest napisał(a):\n> papers\n"),
    acts(
        "Antw: Flow matching",
        "unsubscribe me\n\nOp vr 20 nov 2026 om 08:00 schreef Example Digest:\n> papers\n",
    ),
    acts("回复：Flow matching", "unsubscribe\n\n在 2026年11月20日 08:00，Example Digest 写道：\n> papers\n"),
    acts("Re: unsubscribe"),
    acts("AW: Unsubscribe", f"{QUOTED}"),
    acts("Re[2]: SV: unsubscribe me please"),
    acts(
        "TR: Flow matching on meshes",
        "unsubscribe\n\n---------- Forwarded message ---------\nDe : Example Digest\n",
    ),
    acts("", "<html><body><div>Unsubscribe</div><blockquote>papers</blockquote></body></html>", html=True),
    acts(
        "Re: Flow matching",
        "<p>stop</p><p>Thanks,<br>Ada</p><div>On 20.11.2026 Example Digest wrote:</div>",
        html=True,
    ),
]

AUTOMATIC: dict[str, Any] = {"Auto_Submitted": "auto-replied"}
FORWARDED = """\
    ---------- Forwarded message ---------
    From: Example Digest <digest@example.org>
    Date: Fri, 20 Nov 2026 at 08:00
    Subject: Flow matching on meshes, and 4 more
    To: <ada@uni.example>

    Flow matching on meshes
    Unsubscribe: https://digest.example.org/u/x
    """

MUST_NOT = [
    # out of office, in six languages; without a mark of automatic mail, it is answered once a week
    quiet("Leave until 6 January", "I am on annual leave until 6 January and will answer then.\n", **AUTOMATIC),
    plain("Leave until 6 January", "I am on annual leave until 6 January and will answer then.\n"),
    quiet("Automatic reply: Flow matching on meshes", "Leave from 20 November. I will be back on 6 January.\n"),
    plain("Leave", "I am out of the office with limited access to e-mail.\n"),
    quiet("Abwesenheitsnotiz", "Ich bin bis 6. Januar im Urlaub und nicht im Büro.\n"),
    plain("Stop! Ich bin abwesend", "Bis 6. Januar bin ich abwesend. Vielen Dank!\n"),
    quiet("Réponse automatique : Flow matching", "Je suis en congés jusqu'au 6 janvier. Stop aux urgences.\n"),
    quiet("Stop, je suis absente", "Absente jusqu'au 6 janvier.\n", Precedence="bulk"),
    quiet("Respuesta automática", "Estoy de vacaciones hasta el 6 de enero.\n", **AUTOMATIC),
    plain("Cancel: fuera de la oficina", "Fuera de la oficina hasta el 6 de enero.\n"),
    quiet("Risposta automatica: Stop", "Sono in ferie fino al 6 gennaio.\n"),
    quiet("Autosvar: Stop", "Jeg er på ferie til 6. januar.\n", X_Auto_Response_Suppress="All"),
    quiet("自动回复：Stop", "您好，我正在休假，1月6日回来。\n"),
    # meetings and other talk
    asks("Stop by my office at noon"),
    asks("", "Stop by my office at noon, I have the figures.\n"),
    asks("Cancel that, I meant another list"),
    asks("Cancel", "Thursday's seminar is off, the speaker has missed the train.\n"),
    asks("Cancel Thursday's seminar?"),
    asks("Leave the keys at the desk, please"),
    asks("", "Leave it with me, I shall look at it on Monday.\n"),
    asks("", "Stop\nby when you are here on Monday, will you\n"),
    asks("", "cancel the room on Friday\n\nThanks\nAda\n"),
    asks("Stop sending me the minutes, send them to Bob"),
    asks("leave one seat for me at dinner"),
    asks("", "Hi,\nstop me if I have told you this before.\n\nAda\n"),
    asks("Stop?"),
    asks("", "add flows: flow matching\nstop\n"),
    asks("How do I unsubscribe from only one of my topics?"),
    plain("Meeting on Monday", "We leave at nine. Cancel if you cannot come.\n"),
    plain("Parental leave from March", "Who takes over the lecture?\n"),
    plain("Invitation", "Shall we stop at the lab first?\n\nleave\n"),
    plain("Re: Stop by my office at noon", "Fine with me.\n"),
    # answers about a paper
    plain("Re: Flow matching on meshes, and 4 more", f"The second one is wrong in its third lemma.\n{QUOTED}"),
    asks("Re: Flow matching on meshes", f"Stop words are not removed in table 2, are they\n{QUOTED}"),
    plain("Re: Early stopping", "Leave-one-out is what they should have done.\nCancel culture in peer review!\n"),
    plain("Re: Stop words considered harmful, and 4 more", "Lovely digest today!\n"),
    plain("AW: Cancel culture in citation graphs", "Danke, das habe ich gesucht.\n"),
    plain("Re: Leave no node behind"),
    asks("Re: Unsubscribing from the noise", "Cancel noise first, then fit: that is all of section 3\n"),
    plain("Lovely digest", "Thank you for the papers!\n"),
    # digests passed on, and mail of others
    plain("Fwd: Flow matching on meshes, and 4 more", FORWARDED),
    plain("FW: Stop words considered harmful", f"Something for our reading group.\n\n{FORWARDED}"),
    plain("WG: unsubscribe", "Fuer dich, Bob.\n"),
    plain("Fwd: unsubscribe", "-----Original Message-----\nFrom: Bob <bob@else.example>\n\nunsubscribe\n"),
    quiet("Flow matching on meshes", "Flow matching on meshes\nCancel any time below.\nUnsubscribe\n", List_Id="<x.example>"),
    # advertisements
    quiet("Stop paying too much for ink", "Only today: http://win.example/ink\n", X_Spam_Flag="YES"),
    quiet("Cancel your debts at win.example", "Click now.\n"),
    quiet("STOP", "Stop everything and see https://win.example now, half price on all watches\n", X_Spam="Yes"),
    quiet("Unsubscribe from pain with our new pillow", "Sleep well.\n", X_Spam_Status="Yes, score=9.1 required=5.0"),
    plain("Stop " + "paying too much for what you could have " * 3, "Buy.\n"),
]  # fmt: skip
