"""Recognise the text that people and mail programs add around a command. Pure.

Such text includes greetings, thanks, signatures, the line above a quoted letter, `Re:` in many languages,
and the phrases of automatic replies and advertisements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_NAME_LENGTH = 30  #: maximum number of characters in a word of a signature
MAX_WORDS_IN_NAME = 6  #: maximum number of words in a line of a signature
#: Maximum number of characters in a message that are searched for phrases of automatic replies.
MAX_CHARS_SEARCHED = 4000


def word_set(text: str) -> frozenset[str]:
    """Return the words of a space-separated list."""
    return frozenset(text.split())


#: Polite words that may surround a command without changing its meaning.
POLITE_WORDS = word_set(
    "please pls plz kindly me thanks thank thx ty you very much many a lot in advance cheers"
    " bitte danke merci gracias grazie obrigado obrigada takk tack tak dank"
)
#: Words that confirm in a reply; "yes, I confirm" consists only of these words and fillers.
YES_WORDS = word_set(
    "yes yep yeah yea sure ok okay confirm confirmed agreed ja jawohl bestätigt bestätige oui confirme d'accord"
    " sí si confirmo claro sì confermo va bene sim da да подтверждаю tak potwierdzam joo kyllä evet"
    " 是 是的 好 好的 确认 同意 はい 承認 네 예 확인"
)
YES_FILLERS = word_set("i it do that this my the subscription of course ich je es lo le please")
#: Words and phrases that refuse in a reply.
NO = re.compile(
    r"(?:no|nope|nein|non|não|nao|nej|nei|nie|nee|нет|不|不是|否|いいえ|아니요|아니오)(?=[\s,.!;:。！，]|$)"
    r"|.{0,40}\b(?:(?:did ?n.?t|did not|never|have ?n.?t|have not) (?:\w+ )?(?:ask|request|subscrib|sign|want)"
    r"|(?:was ?n.?t|was not|not) me\b|ich habe (?:das |dies )?nicht|je n.ai (?:pas|rien) demandé|yo no (?:lo )?he pedido)",
    re.IGNORECASE,
)
#: Words with which advertisements continue after `subscribe`.
ADVERTISING_WORDS = word_set("now today free here newsletter immediately")
#: Words that, right after a command, show that the text is written to a person and is not a topic:
#: `add me to the thread`.
PERSON_WORDS = word_set("me us him her them this that these those the my your our a an it to")
#: Words that make a text without operators a sentence, which is no topic.
SENTENCE_WORDS = word_set(
    "i you we me us my your our i'm i'd i've is are was were am be have has had do does did can could would will"
    " should may might please yesterday tomorrow tonight sorry"
)

REPLY_PREFIXES = (
    "re|aw|sv|antw|antwort|odp|vs|ynt|rif|res|ref|r|bls|atb|vá|απ|σχετ|ответ|на|отв|回复|回覆|答复|答覆|返信|회신|답장"
    "|رد|תשובה|השב|ตอบกลับ"
)
FORWARD_PREFIXES = (
    "fwd?|fw|wg|tr|rv|enc|i|pd|vl|vb|doorst|továbbítás|πρθ|пересл|הועבר|转发|轉寄|転送|전달|ilt|inoltra"
)
PREFIX = re.compile(
    rf"\s*(?:(?P<forward>{FORWARD_PREFIXES})|{REPLY_PREFIXES})\s*(?:[\[(]\d+[\])]|\^\d+)?\s*[:：]\s*",
    re.IGNORECASE,
)

#: Sentences that companies add below every mail.
DISCLAIMER = re.compile(
    r"\W*(?:confidential|disclaimer|legal notice|privileged|vertraulich|avis de confidentialité|aviso legal"
    r"|(?:this|the information in this|the contents of this) (?:e-?mail|message|communication)"
    r"|diese (?:e-?mail|nachricht) (?:ist|kann|enthält)|ce (?:message|courriel|mail) (?:est|et|peut)|este (?:mensaje|correo)"
    r"|please consider the environment|think before (?:you )?print|virus-?free)",
    re.IGNORECASE,
)
QUOTE_START = re.compile(
    r">|--\s*$|end$|-----|_____"
    r"|\*?(?:from|von|de|da|fra|från|van|od|от|发件人|差出人)\*?\s?[:：].*@"
    r"|(?:begin forwarded message|anfang der weitergeleiteten)",
    re.IGNORECASE,
)
ATTRIBUTION_LINE = re.compile(
    r".{0,300}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|skrev|schreef|escreveu|kirjoitti|napisała?|napisał\(a\)"
    r"|написала?|yazdı)\b.{0,200}[:：]$"
    r"|.{0,300}(?:写道|寫道|のメール|님이 작성)\s?[:：]$",
    re.IGNORECASE,
)
DATED_ATTRIBUTION = re.compile(r"(?:on|am|le|el|il|den|op|em|dnia|w dniu|pe|\d)\b.{0,60}\d", re.IGNORECASE)
DEVICE_SIGNATURE = re.compile(
    r"(?:sent|gesendet|envoyé|enviado|inviato|skickat|sendt|verzonden) (?:from|with|von|mit|depuis|desde|da|från|fra"
    r"|vanaf|via) |von meinem .{1,40} gesendet|get outlook for",
    re.IGNORECASE,
)
GREETING = re.compile(
    r"(?:hi|hello|hey|dear|good (?:morning|afternoon|evening|day)|hallo|hei|hej|moin|guten (?:morgen|tag|abend)"
    r"|bonjour|hola|buenos días|ciao|buongiorno|olá|sehr geehrte|liebe[rs]?|cher|chère)\b"
    r"(?:[ ,][^,.!?:]{0,40})?[,.!:]?$",
    re.IGNORECASE,
)
CLOSING = re.compile(
    r"(?:(?:many |kind |best |warm |with |all the )*(?:thanks|thank you|regards|wishes|cheers|best|sincerely|greetings)"
    r"|yours|mit (?:freundlichen|besten)|(?:viele|beste|liebe|schöne) gr[üu]|freundliche gr|gruß|mfg|lg|vg"
    r"|cordialement|bien à vous|merci|saludos|un saludo|gracias|cordiali|saluti|grazie|atenciosamente|abraços"
    r"|obrigad|med vennlig|mvh|vennlig|hilsen|med vänlig|hälsning|met vriendelijke|groet|takk|tack|danke)\b.{0,80}$",
    re.IGNORECASE,
)

#: Subjects that mail programs write: automatic replies, receipts, answers to invitations.
AUTOMATIC_SUBJECT = re.compile(
    r"\W*(?:auto(?:matic|mated)?[- ]?(?:reply|response|answer)|out of (?:the )?office|automatische antwort|abwesenheit"
    r"|réponse automatique|respuesta automática|risposta automatica|resposta automática|autosvar|automatisk svar"
    r"|automatisch antwoord|автоответ|自动回复|自動回覆|자동 회신|(?:not )?read: |delivered: |gelesen: |ungelesen"
    r"|lu ?: |leído: |letto: |(?:updated )?invitation: |(?:accepted|declined|tentative|cancell?ed event): )",
    re.IGNORECASE,
)
#: Mail with a link, in which a spam filter asks the sender to prove that they are a person.
CHALLENGE = re.compile(
    r"verification required|(?:sender|email) verification|(?:prove|verify|confirm) (?:that )?you(?: are|'re) (?:a )?(?:human|person|not)"
    r"|to (?:deliver|release|approve) your (?:e-?mail|message)|approved senders?|whitelist|challenge[-/ ]response|boxbe|mailinblack",
    re.IGNORECASE,
)
#: Phrases of automatic replies, which people write, too.
AUTOMATIC_REPLY_PHRASE = re.compile(
    r"out[- ]of[- ](?:the[- ])?office|on (?:(?:annual|parental|maternity|paternity|sick|medical|my|a) )?(?:leave|vacation"
    r"|holidays?)\b|away (?:from|until|on)|auto(?:matic|mated)?[- ]?(?:reply|response|answer)"
    r"|leave (?:from|(?:un)?til{1,2}|through)\b|limited access to (?:my )?e-?mail|i will be (?:back|away|returning|out)"
    r"|abwesen|nicht im (?:büro|haus|hause)|automatische antwort|im urlaub"
    r"|réponse automatique|absence|absent|en congés?|de retour le"
    r"|respuesta automática|fuera de (?:la )?oficina|de vacaciones|ausente"
    r"|risposta automatica|fuori (?:ufficio|sede)|in ferie|assente"
    r"|resposta automática|fora do escritório|de férias"
    r"|autosvar|automatisk svar|på ferie|fravær|ikke på kontoret|frånvarande|på semester|poissa"
    r"|automatisch antwoord|afwezig|op vakantie|nieobecn|na urlopie|автоответ|в отпуске|отсутств"
    r"|自动回复|自動回覆|不在|休假|休暇|자동 회신|부재",
    re.IGNORECASE,
)


def strip_punctuation(word: str) -> str:
    """Return a word without punctuation before and after it."""
    return re.sub(r"^\W+|\W+$", "", word)


def words_in(text: str, *, polite: bool = True) -> list[str]:
    """Return the words of a text in lower case; leave out polite words if `polite` is True."""
    found = [strip_punctuation(word).casefold() for word in text.split()]
    return [word for word in found if word and not (polite and word in POLITE_WORDS)]


def without_please(line: str) -> str:
    """Return a line without the polite words at its start.

    If the line consists of polite words only, return the last of them.
    """
    first, _, rest = line.partition(" ")
    while rest and strip_punctuation(first).casefold() in POLITE_WORDS:
        line = rest
        first, _, rest = line.partition(" ")
    return line


def without_thanks(text: str) -> str:
    """Return the text without the polite words and punctuation at its end."""
    text = text.rstrip(" .,;!")
    begin, _, last = text.rpartition(" ")
    while strip_punctuation(last).casefold() in POLITE_WORDS - {"a"}:
        text = begin.rstrip(" .,;!")
        begin, _, last = text.rpartition(" ")
    return text


def says_yes(line: str) -> bool:
    """Return whether a line says only yes, ok or confirm, in one of ten languages."""
    words = [word for word in words_in(line) if word not in YES_FILLERS]
    return bool(words) and "?" not in line and YES_WORDS.issuperset(words)


def says_no(line: str) -> bool:
    """Return whether a line says that the writer did not ask for the digests."""
    return "?" not in line and bool(NO.match(line)) and not says_yes(line.partition(",")[0])


# ── subjects ────────────────────────────────────────────────────────────────────────────────────


def without_prefixes(subject: str) -> str:
    """Return a subject without `Re:` and `Fwd:`, in many languages."""
    return subject[sum(len(match[0]) for match in prefixes_of(subject)) :]


def is_forwarded(subject: str) -> bool:
    """Return whether a subject has the prefix of a forwarded message."""
    return any(match["forward"] for match in prefixes_of(subject))


def prefixes_of(subject: str) -> Iterator[re.Match[str]]:
    """Yield a match for each prefix at the start of a subject, in order."""
    end = 0
    while match := PREFIX.match(subject, end):
        yield match
        end = match.end()


# ── lines around a command ──────────────────────────────────────────────────────────────────────


def is_end_of_text(line: str, following: str) -> bool:
    """Return whether the writer's text ends before this line; `On Friday Ada wrote:` may take two lines."""
    if any(kind.match(line) for kind in (QUOTE_START, DEVICE_SIGNATURE, ATTRIBUTION_LINE, DISCLAIMER)):
        return True
    return bool(DATED_ATTRIBUTION.match(line) and ATTRIBUTION_LINE.match(f"{line} {following}"))


def attribution_length(lines: Sequence[str]) -> int:
    """Return how many leading lines (0 to 2) introduce a quoted letter, such as `On Friday Ada wrote:`."""
    first, following = ([*lines, "", ""])[:2]
    if ATTRIBUTION_LINE.match(first):
        return 1
    is_split = DATED_ATTRIBUTION.match(first) and ATTRIBUTION_LINE.match(f"{first} {following}")
    return 2 if is_split else 0


def is_greeting(line: str) -> bool:
    """Return whether a line is only a greeting."""
    return len(line.split()) <= MAX_WORDS_IN_NAME and bool(GREETING.match(line))


def is_name(line: str) -> bool:
    """Return whether a line may be part of a signature: a few words spelled like names."""
    found = line.split()
    return len(found) <= MAX_WORDS_IN_NAME and "?" not in line and all(map(is_name_like, found))


def is_name_like(word: str) -> bool:
    """Return whether a word is spelled like part of a name, an address or a number."""
    is_short = len(strip_punctuation(word)) <= 3 or "@" in word or "/" in word
    return len(word) <= MAX_NAME_LENGTH and (is_short or not strip_punctuation(word)[:1].islower())


def is_polite(line: str) -> bool:
    """Return whether a line is only a greeting, thanks, or a formula that ends a letter."""
    return is_greeting(line) or bool(CLOSING.match(line)) or not words_in(line)
