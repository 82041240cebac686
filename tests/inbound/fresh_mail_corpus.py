"""List invented mails as people and mail programs write them, in several languages, each with the expected result."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from quopri import encodestring
from typing import Any

ADA, BOB, EVE, STRANGER = "ada@uni.example", "bob@else.example", "eve@gone.example", "kim@lab.example"
US = "digest@example.org"
LETTER, QUESTION = "the digest", "the confirmation letter"  #: whose reply address is filled in


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshMail:
    """A mail and what must come of it."""

    name: str
    sender: str = ADA
    to: str = US
    subject: str = "Re: Flow matching on meshes and 2 more"
    kind: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: Sequence[str] = ()
    is_signed: bool = False
    letters: Sequence[str] = ("reply",)  #: the kinds of letters that come back
    says: Sequence[str] = ()  #: in the letters
    silent_on: Sequence[str] = ()  #: not in the letters
    state: str = "active"  #: of the writer, or of the reader whose letter is answered
    topics: Sequence[str] = field(default=("Flows",))
    sign_up: str | None = None  #: a part of the queued sign-up

    def __str__(self) -> str:
        return self.name

    def content(self, to: str) -> bytes:
        """Return the mail as it travels."""
        top = [
            f"From: {self.sender.partition('@')[0].title()} Writer <{self.sender}>",
            f"To: {to}",
            f"Subject: {self.subject}",
            "Date: Fri, 20 Nov 2026 10:11:12 +0100",
            f"Message-ID: <{abs(hash(self.name))}@mail.example>",
            *self.headers,
            "MIME-Version: 1.0",
            f"Content-Type: {self.kind}",
        ]
        return (
            "\r\n".join(top).encode()
            + b"\r\n\r\n"
            + self.body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        )


def plain(name: str, text: str, **more: Any) -> FreshMail:
    """A mail of a program that writes plain text."""
    return FreshMail(name=name, body=text.encode(), **more)


def gmail(name: str, text: str, **more: Any) -> FreshMail:
    """A reply in Gmail: wrapped plain text and HTML, both above the quoted letter."""
    wrapped, line = list[str](), ""
    for part in text.split("\n"):
        line = ""
        for word in part.split(" "):
            if line and len(line) + len(word) > 70:
                wrapped.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        wrapped.append(line)
    quoted = "On Fri, Nov 20, 2026 at 9:00 AM Example Digest <digest@example.org> wrote:\n\n> Flow matching on meshes\n> unsubscribe\n"
    html = (
        '<div dir="ltr">' + "".join(f"<div>{escape(part) or '<br>'}</div>" for part in text.split("\n"))
        + '</div><br><div class="gmail_quote"><div dir="ltr" class="gmail_attr">On Fri, Nov 20, 2026 at 9:00 AM Example'
        ' Digest &lt;<a href="mailto:digest@example.org">digest@example.org</a>&gt; wrote:<br></div><blockquote'
        ' class="gmail_quote">unsubscribe</blockquote></div>'
    )  # fmt: skip
    return alternative(name, "\n".join(wrapped) + "\n\n" + quoted, html, **more)


def outlook(name: str, text: str, **more: Any) -> FreshMail:
    """A reply in Outlook: forty kilobytes of style, and the quoted letter below its header."""
    style = "<style>" + "p.MsoNormal {margin:0cm; font-size:11.0pt;}\n" * 900 + "</style>"
    paragraphs = "".join(f'<p class="MsoNormal">{escape(part) or "&nbsp;"}</p>' for part in text.split("\n"))
    html = (
        f"<html><head>{style}</head><body>{paragraphs}<div style='border-top:solid #E1E1E1 1.0pt'><p class=MsoNormal><b>From:</b>"
        " Example Digest &lt;digest@example.org&gt; <br><b>Sent:</b> Friday, November 20, 2026 9:00 AM<br></p></div>"
        "<p>Flow matching on meshes</p><p>Unsubscribe</p></body></html>"
    )  # fmt: skip
    kind = "text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable"
    return FreshMail(name=name, kind=kind, body=encodestring(html.encode()), **more)


def apple(name: str, text: str, **more: Any) -> FreshMail:
    """A mail of Apple Mail: flowed text in which spaces at line ends are extra."""
    return FreshMail(
        name=name, kind="text/plain; charset=utf-8; format=flowed; delsp=yes", body=text.encode(), **more
    )


def phone(name: str, text: str, **more: Any) -> FreshMail:
    """A mail from a telephone, in base64 and with its signature."""
    signed = f"{text}\n\nSent from my iPhone\n"
    kind = "text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64"
    return FreshMail(name=name, kind=kind, body=b64encode(signed.encode()), **more)


def alternative(name: str, text: str, html: str, **more: Any) -> FreshMail:
    body = f"--b\nContent-Type: text/plain; charset=utf-8\n\n{text}\n--b\nContent-Type: text/html; charset=utf-8\n\n{html}\n--b--\n"
    return FreshMail(name=name, kind='multipart/alternative; boundary="b"', body=body.encode(), **more)


SAVE = "Open the link below and press Save to confirm."
LEFT: dict[str, Any] = {"letters": ["goodbye"], "state": "unsubscribed"}
ASKED: dict[str, Any] = {"letters": ["reply"], "says": ["Do you want to unsubscribe?"]}
NOTHING: dict[str, Any] = {"letters": ()}
SHORT: dict[str, Any] = {"letters": ["no_command"], "says": ["Thank you for your message."]}
ABSENT: dict[str, Any] = {
    "letters": ["no_command"],
    "says": ["To pause your digests, reply for example “pause until 6 January”."],
}
EXAMPLES: dict[str, Any] = {
    "letters": ["no_command"],
    "says": [
        "Examples of what",
        "list",
        "weekly fri at 8:00",
        "pause 2 weeks",
        "change my address",
        "Unsubscribe:",
    ],
}
NEWCOMER: dict[str, Any] = {"sender": STRANGER, "subject": "digest", "topics": (), "state": "", "letters": ()}
PENDING: dict[str, Any] = {
    "sender": BOB,
    "to": QUESTION,
    "subject": "Re: Confirm your subscription",
    "topics": (),
    "state": "pending",
}
FOOTER = "\n\nDr. Ada Writer\nGroup Leader, Institute of Meadows\nTel: +49 30 555 0123\nwww.meadows.example\n\nThis e-mail may contain confidential information. If you are not the recipient, delete it and stop reading.\n"

UNSUBSCRIBING = [
    gmail("a sentence over a signature", "Please unsubscribe me from this list, thanks a lot.\n--\nAda", **LEFT),
    outlook("Outlook with a disclaimer", f"Unsubscribe please{FOOTER}", **LEFT),
    phone("a typo from a phone", "Unsubcribe", **LEFT),
    plain("German", "Sehr geehrte Damen und Herren,\n\nbitte melden Sie mich ab.\n\nMit freundlichen Grüßen\nAda", **LEFT),
    plain("French", "Bonjour,\nje veux me désabonner\nCordialement, Ada", **LEFT),
    plain("Spanish", "Hola, quiero darme de baja por favor.", **LEFT),
    plain("Portuguese", "Cancelar inscrição", **LEFT),
    plain("Italian", "Cancellami, grazie", **LEFT),
    plain("Dutch", "Graag uitschrijven", **LEFT),
    plain("Polish", "Wypisz mnie", **LEFT),
    plain("Russian", "Здравствуйте! Отпишите меня, пожалуйста", **ASKED),
    plain("Chinese", "请帮我退订，谢谢", **LEFT),
    plain("Japanese", "配信停止をお願いします", **LEFT),
    plain("Korean", "수신거부", **LEFT),
    plain("no more", "No more emails please, I changed fields years ago.", **ASKED),
    plain("stop these mails", "Stop sending me these emails.", **LEFT),
    plain("take me off", "Can you take me off this list?", **ASKED),
    plain("an empty reply with a subject", "", subject="RE: Flow matching on meshes UNSUBSCRIBE", **LEFT),
    plain("LISTSERV", "SIGNOFF DIGEST-L", subject="", **LEFT),
    plain("a reason first", "I have moved to industry and have no time to read papers.\nPlease unsubscribe me.\nAda", **LEFT),
    plain("from an alias", "unsubscribe", sender="a.writer@uni.example", to=LETTER, letters=["reply"],
          says=["not provably from your address", "Do you want to unsubscribe?"]),
    plain("forged", "unsubscribe", headers=["Authentication-Results: mx.else; dmarc=fail header.from=uni.example"], **NOTHING),
    plain("from somebody who has left", "unsubscribe", sender=EVE, letters=["how_to_subscribe"], state="unsubscribed", topics=(),
          says=["We send nothing to eve@gone.example", "use the link in any digest"]),
    plain("out of the list, in German", "Bitte nehmen Sie mich aus dem Verteiler.", **ASKED),
    plain("no more, in Spanish", "no me envíen más correos", **ASKED),
    plain("no more, in Chinese", "我不想再收到这些邮件", **ASKED),
    plain("with the data", "unsubscribe and delete my data", **ASKED),
    plain("Italian, with an article", "Vorrei cancellare l'iscrizione, grazie", **LEFT),
    plain("not wanted any more", "I don't want to get these emails anymore", **ASKED),
    plain("not wanted, in Spanish", "Ya no quiero recibir estos correos", **ASKED),
    plain("not again", "Don't write to me anymore.", **ASKED),
    plain("an angry one", "Stop bothering me with this junk", **ASKED),
    plain("German, between friends", "Bitte tragt mich aus", **ASKED),
    plain("a Spanish list", "Quítenme de su lista", **ASKED),
    plain("Russian, do not write", "не пишите мне больше", **ASKED),
    plain("German, not again", "Bitte nicht mehr anschreiben", **ASKED),
    plain("an address of a list", "Please remove this address from your mailing list.", **ASKED),
    plain("a meeting", "Cancel\nthe meeting with Prof. Wu on Tuesday, I am ill.", **ASKED),
]  # fmt: skip

PAUSING = [
    gmail("a holiday", "Hi there,\n\nI'm going on holiday for three weeks, please pause my digests.\n\nCheers\nAda",
          says=["Paused until 11 December 2026."], state="paused"),
    plain("bare", "pause", says=["Paused until 27 November 2026.", "This is one week; write “pause until 6 January” for longer."], state="paused"),
    plain("a day first", "Pause until 24.12. please", says=["Paused until 24 December 2026."], state="paused"),
    plain("a date below a subject", "until 24.12. please", subject="Pause", says=["> Pause until 24.12. please Paused until 24 December 2026."],
          state="paused"),
    plain("slashes", "pause until 02/03/2027", says=["This date has two meanings. Write: pause until 2 March 2027, or: pause until 3 February 2027"]),
    plain("the year", "Please pause it until the end of the year!", says=["Paused until 1 January 2027."], state="paused"),
    plain("no end", "SET DIGEST-L NOMAIL", says=["Paused. Write “resume” to get digests again."], state="paused"),
    plain("no date", "pause until the baby sleeps", says=["Not understood. Write: pause 2 weeks, or: pause until 6 January"]),
    plain("two lines", "I am at a conference until Monday.\nPlease pause.", says=["Paused until 23 November 2026."], state="paused"),
    plain("on hold", "Please put my subscription on hold until 10 January.", says=["Paused until 10 January 2027."], state="paused"),
    plain("back again", "I'm back! resume please", says=["You were not paused."]),
    plain("from and to", "pause from 20 December to 6 January", says=["A pause begins at once. If this is right, write: pause until 6 January"]),
    plain("an absence", "I am out of the office until 7 December.", **ABSENT),
    plain("an absence with a wish", "I will be on leave from 1 December until 5 January. Please stop the emails while I am away.", **ABSENT),
    plain("a German absence", "Ich bin bis 4. Januar im Urlaub, bitte solange keine Mails.", **ABSENT),
    plain("a pause in German", "Bitte bis 6.1. pausieren", says=["Not understood. Write: pause 2 weeks, or: pause until 6 January"]),
    plain("until I write", "Going on leave, please pause everything until I write again.", says=["Paused. Write “resume”"], state="paused"),
    plain("a pause with a reason to leave", "I don't want these mails until March", says=["Then write: pause until march"]),
    plain("again", "Please start sending again", says=["You were not paused."]),
    plain("a marked absence", "Back on 7 December.", subject="Automatic reply: papers", **NOTHING),
    plain("a marked absence with a wish", "I am out of the office until 7 December. Please pause until then.", subject="Automatic reply: papers",
          state="paused", says=["Paused until 7 December 2026."]),
    plain("an absence that stops the digests", "I'll be on parental leave from tomorrow until the end of May 2027. Please stop the digests until then.",
          subject="Out of office Re: papers", state="paused", says=["Paused until 1 June 2027."]),
]  # fmt: skip

TOPICS = [
    gmail("a wrapped filter", 'add Batteries: ("solid state" OR "lithium metal" OR "lithium sulfur") AND (cathode* OR anode*) ANDNOT review',
          to=LETTER, is_signed=True, says=["Added: Batteries.", "None of the last 4 papers matches."], topics=["Flows", "Batteries"]),
    apple("flowed", 'add Batteries: ("solid state" OR "lithium metal")  \nANDNOT review', to=LETTER, is_signed=True,
          says=["Added: Batteries."], topics=["Flows", "Batteries"]),
    plain("broken after an operator", "add Batteries: cathode* OR\nanode*\nlist", to=LETTER, is_signed=True,
          says=["Added: Batteries.", "2. Batteries: cathode* OR anode*"], topics=["Flows", "Batteries"]),
    plain("matches", "add Robots: robot*", to=LETTER, is_signed=True, topics=["Flows", "Robots"],
          says=["Added: Robots. It matches 1 of the last 4 papers; the latest: Robots that ask."]),
    plain("a polite topic", "Could you please add a topic on graph neural networks?", to=LETTER, is_signed=True,
          says=["Added: graph neural networks."], topics=["Flows", "graph neural networks"]),
    plain("a lower-case and", "add robots and drones", says=['Read as the description about:"robots and drones"']),
    plain("a category", "add cs.CL", says=["did you mean cat:cs.CL?"]),
    plain("a wrong category", "add Systems: cat:cs.SYS AND latency", says=["> add Systems: cat:cs.SYS AND latency", "cs.SY"]),
    plain("several topics in a line", "add protein folding, quantum dots and perovskites", says=["This may be no topic, or several."]),
    plain("quotes", 'Add "coral reefs" please', to=LETTER, is_signed=True, says=["Added: coral reefs."], topics=["Flows", "coral reefs"]),
    plain("a change without a command", "replace Flows with reefs OR corals", says=["Then write: add Flows: reefs OR corals"]),
    plain("why", "why did I get paper 2?", to=LETTER, is_signed=True, says=["It matches Flows"]),
    plain("an address", "add wu@uni.example", says=["This may be no topic"], silent_on=["wu@uni"]),
    plain("two things in a sentence", "Thanks for this! Please add robots: robot*. And could you pause my digests for 2 weeks?", to=LETTER,
          is_signed=True, says=["Added: robots.", "Paused until 4 December 2026."], topics=["Flows", "robots"], state="paused"),
    plain("all but one", "add robots: robot*\nadd cups: (cup OR\ndrop flows", to=LETTER, is_signed=True, topics=["robots"],
          says=["Added: robots.", "Add a word after OR.", "Removed: Flows."]),
    plain("left unread", "drop flows\nBy the way, your logo is upside down.\n", to=LETTER, is_signed=True, topics=[],
          says=["Removed: Flows.", "Left unread, because it is no command: > By the way, your logo is upside down."]),
    plain("several papers", "save 1, 2 and 3", to=LETTER, is_signed=True, says=["Saved: "]),
    plain("one of three papers is missing", "save 1, 2 and 9", to=LETTER, is_signed=True, says=["The digest has no paper 9"], silent_on=["Saved"]),
    plain("a link in a filter", "add x: https://win.example/ OR y", silent_on=["win.example"], says=["…"]),
]  # fmt: skip

SCHEDULES = [
    plain("noon", "at noon", to=LETTER, is_signed=True, says=["Changed to: Every day at 12:00"]),
    phone("a time", "9.30 please", to=LETTER, is_signed=True, says=["Changed to: Every day at 09:30"]),
    plain("a sentence", "Please change the time to 07:15 America/New_York", to=LETTER, is_signed=True, says=["at 07:15, New York"]),
    plain("workdays", "Mon-Fri at 6", to=LETTER, is_signed=True, says=["Monday to Friday at 06:00"]),
    plain("an abbreviation", "at 8:00 EST", to=LETTER, is_signed=True, says=["may mean several time zones"]),
    plain("a zone with a colon", "Timezone: Asia/Kolkata", to=LETTER, is_signed=True, says=["Every day at 08:00, Kolkata"]),
    plain("a request", "Hi team, could you send it to me at 6:30 instead? Thanks, Ada", to=LETTER, is_signed=True, says=["Every day at 06:30"]),
    plain("enough", "Once a month is enough for me.", to=LETTER, is_signed=True, says=["The first of every month"]),
    plain("a mail a week", "Could you send me only one mail a week, on Fridays?", says=["Do you mean this? Then write: weekly friday"]),
    plain("two days and an hour", "Please deliver on Tuesdays and Thursdays at 7", says=["Then write: weekly thursday at 7:00"]),
    plain("another rhythm", "twice a week please", says=["Not understood.", "Write: weekly fri at 8:00"]),
    plain("twice a week", "weekly mon and thu", says=["Not understood.", "Write: weekly fri at 8:00"]),
]  # fmt: skip

QUESTIONS = [
    plain("what", "What am I subscribed to?", says=["1. Flows"]),
    plain("an address", "Hi, I have a new address from Monday on: ada@lab.example.", letters=["account_link"]),
    plain("a change of address", "How do I change my email address?", letters=["account_link"]),
    plain("an erasure", "Please delete all my data (GDPR).", letters=["account_link"]),
    plain("an erasure in a sentence", "I request that my personal data be deleted.", letters=["account_link"]),
    plain("a mailbox that nobody reads", "This mailbox is not monitored. Please write to the office.", **ABSENT),
    plain("an export", "Please export my data", letters=["account_link"]),
    plain("Hilfe", "Hilfe!", letters=["help"]),
    plain("help about the schedule", "help schedule", says=["Write: weekly fri at 8:00."]),
    plain("a question about a paper", "The second paper is nice, have you seen the one of the same group?", **SHORT),
    plain("a question", "Who chooses these papers, and can I see yesterday's?", **EXAMPLES),
    plain("thanks", "Great digest today, thanks!", **SHORT),
    plain("about a paper", "The proof of lemma 3 in the first one has a gap.", **SHORT),
    plain("a receipt", "Your message was read on Friday.", subject="Read: Flow matching on meshes", **NOTHING),
    plain("a challenge", "To deliver your message, confirm that you are human: https://filter.example/x", subject="Re: papers", **NOTHING),
    FreshMail(name="an invitation", kind="text/calendar; method=REQUEST", body=b"BEGIN:VCALENDAR\nEND:VCALENDAR\n", letters=()),
]  # fmt: skip

NEWCOMERS = [
    plain("with topics and hours", "Hello,\n\nsubscribe Batteries: cathode* OR anode*\nadd Robots: robot*\nweekly fri at 9:00 Europe/Oslo\n\nBest\nKim",
          **{**NEWCOMER, "sign_up": '"topics":{"Batteries":"cathode* OR anode*","Robots":"robot*"},"texts":{"cadence":"weekly-fri","at":"09:00","timezone":"Europe/Oslo"'}),
    plain("topics in the body", "batteries: cathode* OR anode*\nrobots: robot*", **{**NEWCOMER, "subject": "subscribe",
          "sign_up": '"topics":{"batteries":"cathode* OR anode*","robots":"robot*"}'}),
    plain("a wrong filter", "subscribe Robots: robot AND (arm OR\n", **{**NEWCOMER, "sign_up": "Add a word after OR."}),
    outlook("a sentence", "Please subscribe me to papers about coral reefs.", **{**NEWCOMER, "sign_up": '"topics":{"coral reefs":"about:\\"coral reefs\\""}'}),
    plain("another's address", "Please subscribe lee@lab.example to the digest.", **{**NEWCOMER, "letters": ["how_to_subscribe"],
          "says": ["We subscribe only the address from which you write."]}),
    plain("not a reader", "pause 2 weeks", **{**NEWCOMER, "letters": ["how_to_subscribe"], "says": ["We send nothing to kim@lab.example"]}),
    plain("sign me up", "Please add me to your mailing list.", **{**NEWCOMER, "sign_up": "{}"}),
    plain("yes and an hour", "Sure, at 7am please", **{**PENDING, "letters": ["welcome", "reply"], "state": "active", "says": ["Every day at 07:00"]}),
    plain("never", "Who is this? I never signed up.", **{**PENDING, "letters": (), "state": "unsubscribed"}),
    plain("German yes", "Ja, bitte!", **{**PENDING, "letters": ["welcome"], "state": "active"}),
    plain("yes and a topic", "Yes, and please add Vision: image* OR video", **{**PENDING, "letters": ["welcome", "reply"], "state": "active",
          "topics": ["Vision"], "says": ["Added: Vision."]}),
    plain("no", "No, I did not ask for this.", **{**PENDING, "letters": (), "state": "unsubscribed"}),
    plain("a thumb", "👍", **{**PENDING, "letters": ["confirm"], "says": ["Your reply did not say yes, so nothing has changed yet."]}),
    plain("nothing", "", **{**PENDING, "letters": ["confirm"], "says": ["Your reply did not say yes"]}),
    plain("an absence is no consent", "Yes, I am on vacation until 6 January.", **{**PENDING, "letters": ["confirm"]}),
    plain("yes to another address", "yes", **{**PENDING, "to": US, "letters": ["confirm"], "says": ["A “yes” counts only as a reply to this email"]}),
]  # fmt: skip

#: Replies whose sender is proven.
PROVEN: dict[str, Any] = {"to": LETTER, "is_signed": True}
CONFIRMED: dict[str, Any] = {**PENDING, "letters": ["welcome", "reply"], "state": "active"}
SECOND_TRIAL = [
    plain("a list of topics", "Please add the following topics:\n\n1. Gaussian processes\n2. active learning\n\nBest\nAda", **PROVEN,
          topics=["Flows", "Gaussian processes", "active learning"]),
    plain("a list without a colon", "add these\nFederated learning\ndifferential privacy\n\nThanks\nAda", **PROVEN,
          topics=["Flows", "Federated learning", "differential privacy"]),
    plain("a list without topics", "add the following topics\nweekly fri", **PROVEN,
          says=["This may be no topic, or several.", "Changed to: Every Friday"]),
    plain("a list of somebody new", "Please subscribe me to the following topics:\n- coral reefs\n- Tides\n\nKind regards\nKim",
          **{**NEWCOMER, "sign_up": '{"topics":{"coral reefs":"about:\\"coral reefs\\"","Tides":"Tides"}'}),
    plain("a wish of somebody new", "Hello, I would like to subscribe to your digest about coral reefs.\nKind regards\nKim",
          **{**NEWCOMER, "sign_up": '{"topics":{"coral reefs":"about:\\"coral reefs\\""}'}),
    plain("a quoted author", 'add au:"Ada Ito"', **PROVEN, topics=["Flows", 'au:"Ada Ito"']),
    plain("two phrases", 'add "video model" OR "image model"', **PROVEN, topics=["Flows", '"video model" OR "image model"']),
    plain("numbers as they were listed", "drop Flows\nadd Robots: robot*\ndrop 1", **PROVEN, topics=["Robots"],
          says=["Removed: Flows.", "You have no topic of that name. Yours are: Robots"]),
    plain("the topic", "Please delete the Flows topic.", **PROVEN, topics=[]),
    plain("a number in words", "could you remove number 1?", **PROVEN, topics=[]),
    plain("two commands in a sentence", "please add quantum sensing and remove flows", **PROVEN, topics=["quantum sensing"]),
    plain("a topic and its schedule", "add robots, weekly on Friday at 9", **PROVEN, topics=["Flows", "robots"], says=["Every Friday at 09:00"]),
    plain("a sentence about the week", "please switch me to a weekly digest, friday mornings at 9", **PROVEN, says=["Every Friday at 09:00"]),
    plain("frequency", "Change frequency to monthly", **PROVEN, says=["The first of every month"]),
    plain("stop until", "I'm on parental leave. Can you stop the mails until March?", **PROVEN, state="paused", says=["Paused until 1 March 2027."]),
    plain("hold", "holiday until Monday 7 December, please hold my mails", **PROVEN, state="paused",
          says=["> holiday until Monday 7 December please hold my mails Paused until 7 December 2026."]),
    plain("travelling", "I'm travelling and will answer when I'm back.", **ABSENT),
    plain("Norwegian, the other way round", "Avmeld meg", **LEFT),
    plain("from the database", "remove my email address from your database", **LEFT),
    plain("by address", "please take ada@uni.example off your list", **ASKED),
    plain("one new address in three sentences", "I have changed my address. My new address is ada@new.example. Please update it.",
          letters=["account_link"]),
    plain("list", "list my topics", says=["1. Flows"]),
    plain("help in a sentence", "help me please, how does it work?", letters=["help"]),
    plain("a paper in a sentence", "save paper 2 please", **PROVEN, says=["Saved: "]),
    plain("why here", "why is paper 1 in here?", **PROVEN, says=["It matches Flows"]),
    plain("two reasons", "why 1 and 2", **PROVEN, says=["Flow matching on meshes: It matches", "Flow matching for images: It matches"]),
    plain("yes, gladly", "Ja, gerne.", **{**CONFIRMED, "letters": ["welcome"]}),
    plain("confirmed and a day", "Confirmed. weekly on Friday at 8 please", **CONFIRMED, says=["Every Friday at 08:00"]),
    plain("sure and a day", "Sure - and make it weekly on Mondays, please.", **CONFIRMED, says=["Every Monday"]),
    plain("yes, subscribe me", "Yes please subscribe me, and set it to 7:00 Europe/Zurich.", **CONFIRMED, says=["Every day at 07:00, Zurich"]),
    plain("yes and subscribe", "Yes, subscribe robots: robot*", **{**CONFIRMED, "topics": ["robots"]}),
    plain("help for strangers", "help", **{**NEWCOMER, "letters": ["how_to_subscribe"], "says": ["How to subscribe"], "silent_on": ["nothing to do"]}),
    plain("a word and a schedule", "subscribe robotics weekly", **{**NEWCOMER, "sign_up": '"topics":{"robotics":"robotics"},"texts":{"cadence":"weekly"'}),
    plain("signing up for a topic", "Please sign me up for papers on coral reefs, weekly on Friday at 9:00. Thanks, Kim",
          **{**NEWCOMER, "sign_up": '"topics":{"coral reefs":"about:\\"coral reefs\\""},"texts":{"cadence":"weekly-fri","at":"09:00"'}),
    plain("German sign-up", "ich möchte mich anmelden", **{**NEWCOMER, "sign_up": "{}"}),
    plain("from my list", "Please remove Flows from my list", **PROVEN, topics=[]),
    plain("one of two is missing", "drop Flows and Robots", **PROVEN, says=["You have no topic of that name."]),
    plain("with filter", "add topic Proteins with filter protein AND (design OR folding)", **PROVEN, topics=["Flows", "Proteins"]),
    plain("to my topics", "Would you add federated learning to my topics?", **PROVEN, topics=["Flows", "federated learning"]),
    plain("the same name", "add flows", **PROVEN, says=['You have that topic already: Flows: "flow matching"'], silent_on=["Undo:"]),
    plain("an hour in a question", "Can I have it at 6?", **PROVEN, says=["Do you mean this? Then write: at 6:00"]),
    plain("a day in a wish", "I want it on Sundays only.", **PROVEN, says=["Do you mean this? Then write: weekly sunday"]),
    plain("a reason after a pause", "Pause for two months please, I have a baby!", **PROVEN, state="paused"),
    plain("remove", "Remove", **ASKED),
    plain("French, no more", "Je ne souhaite plus recevoir ces mails", **ASKED),
    plain("LISTSERV's subscribe", "", **{**NEWCOMER, "subject": "SUBSCRIBE digest Kim Writer", "sign_up": "{}"}),
    plain("yes and a question", "Yes. Can you also send papers on batteries?", **CONFIRMED, says=["Then write: add batteries"]),
    plain("a category in an answer", "subscribe x: cat:q-bio.XX", **{**NEWCOMER, "sign_up": "cat:q-bio.XX"}),
]  # fmt: skip

THIRD_TRIAL = [
    plain("unsubscribing another address", "end", **{**ASKED, "to": US, "subject": "unsubscribe digest ada@old.example"}),
    plain("a stranger's other address", "unsubscribe kim@old.example", **{**NEWCOMER, "letters": ["how_to_subscribe"],
          "says": ["We send nothing to kim@lab.example"]}),
    plain("do not unsubscribe", "Please don't unsubscribe me, I just want fewer mails.", **PROVEN, says=["Write: weekly fri at 8:00"],
          silent_on=["Do you want to unsubscribe"]),
    plain("German, in two parts", "Bitte melden Sie mich von diesem Newsletter ab.", **ASKED),
    plain("discontinue", "Kindly discontinue these emails with immediate effect.", **ASKED),
    plain("go ahead", "Yes please, go ahead!", **{**CONFIRMED, "letters": ["welcome"]}),
    plain("yes, and a wish in German", "Ja, gerne. Bitte täglich um 7 Uhr.", **CONFIRMED, says=["> Bitte täglich um 7 Uhr."], silent_on=["gerne"]),
    plain("yes twice, and a topic", "Sí, confirmo.\nadd Vision: image*", **{**CONFIRMED, "topics": ["Vision"]}, silent_on=["Left unread"]),
    plain("between quotes", "> 1. Flow matching on meshes\n\nsave 1\n\n> 2. Flow matching for images\n\nwhy 2\n", **PROVEN,
          says=["Saved: ", "It matches Flows"]),
    plain("short words between commands", "list\nfoo bar\npause 1 week", **PROVEN, state="paused", says=["Left unread, because it is no command: > foo bar"]),
    plain("two papers in a line", "more 2, less 1", **PROVEN, topics=["Flows", "Like “Flow matching for images”"], says=["> more 2", "> less 1"]),
    plain("the second one", "why did I get the second one??", **PROVEN, says=["It matches Flows"]),
    plain("topics below a heading", "topics:\n  Climate: climate AND model*\n  Oceans: ocean* circulation\nwekly on friday at 8\n",
          **{**NEWCOMER, "subject": "subscribe", "sign_up": '"topics":{"Climate":"climate AND model*","Oceans":"ocean* circulation"},"remarks"'}),
    plain("the word topic in a list", 'Topic NeRF: "radiance field*"', **{**NEWCOMER, "subject": "subscribe", "sign_up": '"topics":{"NeRF":'}),
    plain("a French sign-up", "Je voudrais m'abonner à votre lettre.", **{**NEWCOMER, "sign_up": "{}"}),
    plain("an archive without a dot", "add Quantum: quant-ph", **PROVEN, topics=["Flows", "Quantum"], says=["did you mean cat:quant-ph?"]),
    plain("by an author", "add everything by Ada Ito", **PROVEN, topics=["Flows", 'au:"Ada Ito"']),
    plain("interested in", "I'm also interested in soft grippers", **PROVEN, says=["Then write: add soft grippers"]),
    plain("another filter", 'change Flows to "rectified flow*"', **PROVEN, says=['Then write: add Flows: "rectified flow*"']),
    plain("a topic less", "I don't need the flows topic any more.", **PROVEN, says=["Then write: drop Flows"]),
    outlook("the evening", "Please switch me to a weekly digest, Sunday evening at 19:30.\n\nKind regards,\nDr Ada Writer\nT: +46 8 555 01 23",
            **PROVEN, says=["Every Sunday at 19:30"], silent_on=["Left unread"]),
    plain("seven in the evening", "daily, evening at 7", **PROVEN, says=["Not understood."]),
    plain("too early", "It's too early for me - 10am instead of 6?", **PROVEN, says=["Then write: at 10:00 Your digest"]),
    plain("no weekends", "Can you skip weekends", **PROVEN, says=["Changed to: Monday to Friday at 08:00"]),
    plain("three days a week", "Mon Wed Fri 0630", **PROVEN, says=["or: monthly"]),
    plain("a new time zone", "I have moved to Singapore, please use my new time zone.", **PROVEN, says=["weekdays at 7:30 Europe/Oslo"]),
    plain("a longer pause", "extend the pause until the end of January please", **PROVEN, state="paused", says=["Paused until 1 February 2027."]),
    plain("until I am back", "Hold my mail until I'm back on 2 December.", **PROVEN, state="paused", says=["Paused until 2 December 2026."]),
    plain("you can start again", "I'm back early, you can start sending again", **PROVEN, says=["You were not paused."]),
]  # fmt: skip

FOURTH_TRIAL = [
    plain("a topic in a wish", "Stop sending me flow papers", **PROVEN, says=["Then write: drop Flows", "Unsubscribe:"]),
    plain("enough of a topic", "i dont want flows anymore", **PROVEN, says=["Then write: drop Flows"]),
    plain("unsubscribing from a topic", "Is it possible to unsubscribe from just the Flows topic?", **PROVEN, says=["Then write: drop Flows"]),
    plain("a wish and a command", "Rename the topic Flows to Meshes, and drop topic number 1.", **PROVEN, topics=[],
          says=["Removed: Flows.", "A topic is renamed on the settings page"]),
    plain("saving for me", "Save 1 & 2 for me please", **PROVEN, says=["Saved: "]),
    plain("keeping one", "I'd like to keep paper 3 for later", **PROVEN, says=["Then write: save 3"]),
    plain("less of one", "Less of number 2 please, this is not my area", **PROVEN, says=["Then write: less 2"]),
    plain("more and less", "More like 2 and less like 1 please", **PROVEN, topics=["Flows", "Like “Flow matching for images”"],
          says=["> More like 2", "> less like 1"]),
    plain("several papers and a reason", "save 1 and 3 pls and why 2", **PROVEN, says=["Saved: ", "It matches Flows"]),
    plain("three commands in a line", "drop 1, add robots; weekly", **PROVEN, topics=["robots"], says=["Every Monday"]),
    plain("Spanish, more than one", "Por favor, denme de baja", **ASKED),
    plain("Japanese below a greeting", "お世話になっております。\n\n配信停止をお願いします。\n\n伊藤", **LEFT),
    plain("Portuguese", "Bom dia, por favor remova meu e-mail da lista.", **ASKED),
    plain("Chinese, please not", "你好，请不要再给我发邮件了。", **ASKED),
    plain("Polish, the address", "Dzień dobry, proszę o usunięcie mojego adresu z listy mailingowej.", **ASKED),
    plain("Dutch, in two parts", "Gelieve mij uit te schrijven", **ASKED),
    plain("French thanks first", "Merci de bien vouloir me désabonner de cette newsletter.", **ASKED),
    plain("leaving on a condition", "If there is nothing on meshes, please unsubscribe me.", **ASKED),
    plain("leaving later", "In March, please unsubscribe me.", **ASKED),
    plain("a pause later", "After Christmas, please pause for 2 weeks.", **PROVEN, says=["When it is time, write: pause for 2 weeks"]),
    plain("a schedule later", "As of January, please send only weekly.", **PROVEN, says=["When it is time, write: send only weekly"]),
    plain("if possible", "If possible, please send it weekly.", **PROVEN, says=["Every Monday"]),
    plain("papers without a space", "save 1,2", **PROVEN, says=["Saved: "]),
    plain("an hour with dots", "Please deliver at 6:00 a.m. New York time.", **PROVEN, says=["06:00, New York"]),
    plain("short words", "weekdays at 7:45\nfoo: bar baz\nprint money", **PROVEN, says=["> foo: bar baz", "> print money"]),
    plain("a wish after a pause", "Pause until Jan 4 please, I'm on leave. And when I'm back, weekly is enough.", **PROVEN, state="paused",
          says=["Paused until 4 January 2027.", "Then write: weekly"]),
    plain("a command after a pause", "Pause until 5 January please. Also, change to weekly on Mondays.", **PROVEN, state="paused",
          says=["Paused until 5 January 2027.", "Every Monday"]),
    plain("six months", "Going on parental leave, no mails for the next six months please", says=["Then write: pause for the next six months"]),
    plain("a line in capitals", "SET DIGEST NOMAIL\nQUERY DIGEST\n", state="paused", says=["Left unread, because it is no command: > QUERY DIGEST"]),
    plain("a letter too many", "addd Quantum: quantum*\nweeky", **PROVEN, says=["Then write: add Quantum: quantum*", "Then write: weekly"]),
    plain("two letters swapped", "", subject="hlep", says=["Then write: help"]),
    plain("a sentence after a command", "monthly please. first paper is great btw", **PROVEN, says=["The first of every month", "> first paper"]),
    plain("around a quote", "save 1\n\n> 2. Flow matching for images\n\nwhy 2\n", **PROVEN, says=["Saved: ", "It matches Flows"]),
    plain("German, weekly", "Könnten Sie mir die Mail lieber wöchentlich schicken?", **PROVEN, says=["Then write: weekly"]),
    plain("no mails", "Why am I not getting any mails these days?", says=["1. Flows", "Next digest:"]),
    plain("back", "ok im back now", says=["To get digests again, write only the word “resume”."]),
    plain("one topic too", "subscribe me to quantum chemistry too", **PROVEN, topics=["Flows", "quantum chemistry"]),
    plain("that is me", "Ja, das bin ich", **{**CONFIRMED, "letters": ["welcome"]}),
    plain("yes and thanks", "Oui, c'est bien moi. Merci !", **{**CONFIRMED, "letters": ["welcome"]}),
    plain("yes to nothing", "confirm unsubscribe", **{**PENDING, "letters": ["confirm"]}),
    plain("a polite Japanese yes", "はい、お願いします", **{**CONFIRMED, "letters": ["welcome"]}),
    plain("yes, but later", "ok but not before January", **{**PENDING, "letters": ["confirm"]}),
    plain("yes and another sentence", "Yes I want to subscribe.\nWho chooses the papers?", **CONFIRMED, says=["> Who chooses the papers?"]),
]  # fmt: skip

ALL = [
    *UNSUBSCRIBING,
    *PAUSING,
    *TOPICS,
    *SCHEDULES,
    *QUESTIONS,
    *NEWCOMERS,
    *SECOND_TRIAL,
    *THIRD_TRIAL,
    *FOURTH_TRIAL,
]
