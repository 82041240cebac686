"""Recognise lines that unsubscribe, in ten languages and with one wrong letter. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches
from itertools import dropwhile

from digest.inbound.words_around_commands import POLITE_WORDS, word_set, words_in

#: English words that begin the command; all but the certain ones may mean something else.
COMMAND_WORDS = ("unsubscribe", "leave", "cancel", "stop", "signoff", "unsub", "quit")
#: Phrases that can only refer to the digests, as the whole line apart from polite words.
CERTAIN = re.compile(
    r"(?<!\S)(?:unsub|un-?subscribe|sign-?off|opt[- ]?(?:me )?out|(?:remove|delete) (?:me|myself|my (?:e-?mail )?address|my e-?mail)"
    r"|take me off|abmelden|abmeldung|abbestell(?:en|ung)|austragen|melden? sie mich ab|mich abmelden"
    r"|(?:me |se )?désabonne[rz](?:-moi)?|désabonnement|(?:me |se )?désinscri(?:re|ption|vez-moi)"
    r"|dar(?:se|me)? de baja|de baja|baja|desuscribir(?:me|se)?|cancelar|(?:cancelar|anular) (?:la |mi )?suscripción"
    r"|cancelar (?:a |minha )?(?:assinatura|inscrição|subscrição)|descadastrar|desinscrever"
    r"|(?:mi )?disiscriv\w+|disiscrizione|cancellami|cancellare (?:la )?iscrizione"
    r"|afmelden|uitschrijven|avmeld\w*|meld meg av|avregistrera|afmeld"
    r"|wypisz|wypisać|anuluj subskrypcję|отписаться|отпишите|отписка|отписать)(?: |$)"
)
#: Such phrases in languages written without spaces; they may stand anywhere in a short line.
CERTAIN_WITHOUT_SPACES = re.compile(
    r"退订|退訂|取消订阅|取消訂閱|停止订阅|配信停止|購読解除|登録解除|退会|구독 ?취소|수신 ?거부|구독 ?해지"
)
MAX_WITHOUT_SPACES = 20  #: maximum number of characters in such a line
#: Words that may follow `unsubscribe` without changing its meaning, as in `this list` or `your mails`.
LIST_WORDS = word_set(
    "from to this the these your my all any of off list mailing newsletter newsletters digest digests email emails mail"
    " mails paper papers subscription subscriptions service messages i am would like now immediately asap today more"
    " receiving getting sending further want mailings quiero quero je veux vous von aus vom dem der den die das diesem verteiler liste e-mail e-mails de du la"
    " cette ces del lista vos mi mon me mich"
)
NOW = word_set("now immediately asap today")
#: What `cancel` and `leave` must name, if they name anything, and what `stop` may name, too.
SUBSCRIPTIONS = word_set("subscription subscriptions digest digests newsletter newsletters list")
MAILS = word_set("email emails mail mails messages") | SUBSCRIPTIONS
PHRASE = re.compile(
    r"\bun-?subscrib|\b(?:remove|take|delete) me\b|\bcancel (?:my|the) (?:subscription|digest)|\bopt(?:ing)?[- ]out\b"
    r"|\bstop (?:sending|receiving|getting|the|these|all|your) .{0,30}\b(?:mails?|e-?mails?|digests?|messages?|newsletters?)"
    r"|\b(?:no longer|not|n't) (?:want|wish|interested|like)\b.{0,30}\b(?:mails?|e-?mails?|digests?|messages?|newsletters?|this)"
    r"|\bno more (?:mails?|e-?mails?|digests?|messages?|newsletters?)|\bsigning off\b"
    r"|abmelden|abbestell|désabonn|désinscri|darme? de baja|suscripción|disiscri|uitschrijven|отпис|wypisa",
    re.IGNORECASE,
)


def says_unsubscribe(line: str, names: frozenset[str]) -> bool:
    """Return whether a line says nothing more than to unsubscribe; `names` are the words of the writer's name."""
    if set("?？") & set(line):
        return False
    words = list(dropwhile(POLITE_WORDS.__contains__, words_in(line, polite=False)))
    words = [word for word in words if word not in names]
    if words and is_misspelled(words[0]):
        words[0] = "unsubscribe"
    text = f"{' '.join(words)} "
    if CERTAIN.match(text):
        others = set(CERTAIN.sub("", text).split()) - POLITE_WORDS - LIST_WORDS
        return not others or (text.startswith("sign") and len(others) == 1)  # a list's name, for LISTSERV
    if len(line) <= MAX_WITHOUT_SPACES and CERTAIN_WITHOUT_SPACES.search(line):
        return True
    if not words or words[0] not in COMMAND_WORDS:
        return False
    objects = set(words[1:]) - POLITE_WORDS - NOW - {words[0]}
    named = MAILS if words[0] == "stop" else SUBSCRIPTIONS
    return not objects or (objects <= LIST_WORDS and bool(objects & named))


def is_misspelled(word: str) -> bool:
    """Return whether a word is `unsubscribe` with a wrong letter, rather than `subscribe`."""
    known = ["unsubscribe", "subscribe", "subscriber", "subscription"]
    return get_close_matches(word, known, n=1, cutoff=0.85) == ["unsubscribe"]
