"""Compare what arrived with what README and docs promise. Imports nothing of `digest`."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from tests.pilot.diary import Act, Answer, Diary, Letter, LoadedPaper, Stated, Status, Wishes

HOUR = timedelta(hours=1)
CAP = 10  #: papers in a digest
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: Letters that answer what somebody has just done, or that belong to it.
ANSWERS = frozenset(
    {
        "goodbye",
        "paused",
        "changed",
        "settings",
        "settings_link",
        "account_link",
        "new_address",
        "address_changed",
        "reply",
        "help",
    }
)


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The digest of a day, a week or a month."""

    name: str
    day: date
    due: datetime
    closes: datetime


@dataclass(frozen=True, kw_only=True)
class Made:
    """An edition that a run decided for a reader, and what the reader wanted then."""

    edition: Slot
    run: datetime
    sent: datetime | None  #: when it was in the mailbox, if it could be sent in time
    wishes: Wishes
    since: datetime  #: its papers are those loaded after this time


@dataclass(frozen=True, kw_only=True)
class State:
    """What a reader is, what they want, and which digest is promised to them, from a moment on."""

    since: datetime
    is_active: bool = False
    wishes: Wishes = field(default_factory=Wishes)
    until: date | None = None  #: the first day with digests after a pause
    what: str = ""
    promised: datetime | None = (
        None  #: when the next digest is due; without it, that of today is, if it began
    )
    had: frozenset[str] = frozenset()  #: the editions that were made or missed
    cut: datetime | None = None  #: the time until which papers have been considered

    def begun(self, at: datetime) -> Iterator[Slot]:
        """Yield the promised editions that have begun and were not made."""
        day = local_day(self.promised or at, self.wishes)
        while day <= local_day(at, self.wishes):
            edition = edition_on(day, self.wishes)
            if edition and edition.due <= at and edition.name not in self.had:
                yield edition
            day += timedelta(days=1)

    def due(self, at: datetime) -> Slot | None:
        """Return the edition that can be made now."""
        return next((one for one in self.begun(at) if at < one.closes), None)

    def upcoming(self, at: datetime) -> Slot:
        """Return the first edition that begins later and was not made."""
        day = local_day(at, self.wishes)
        while not (edition := edition_on(day, self.wishes)) or edition.due <= at or edition.name in self.had:
            day += timedelta(days=1)
        return edition

    def next(self, at: datetime) -> Slot:
        return self.due(at) or self.upcoming(at)

    def with_promise(self, at: datetime) -> State:
        return replace(self, promised=self.next(at).due)


@dataclass(kw_only=True)
class Person:
    """A reader with the addresses that they have had, and what happened to them."""

    acts: list[Act] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    #: the papers of digests and welcome letters, each with the letters that had it
    shown: dict[str, list[Letter]] = field(default_factory=lambda: defaultdict(list))

    def state(self, at: datetime) -> State | None:
        """Return the reader's state at a moment."""
        place = bisect_right(self.states, at, key=lambda one: one.since)
        return self.states[place - 1] if place else None

    def live(self, diary: Diary) -> None:
        """Follow the reader through the diary: their acts, and the runs that made their digests."""
        moments = [(at, 0, Act(at=at, email="", what="run")) for at in diary.composed]
        moments += [(act.at, 1, act) for act in self.acts]
        for _, _, act in sorted(moments, key=lambda one: one[:2]):
            if act.what == "run" and self.states:
                self.run(act.at, diary)
            elif act.what == "restored" and self.states:
                self.states.append(restored(self.states[-1], self.state(act.since or act.at), act))
            elif act.what not in {"run", "restored"}:
                last = self.states[-1] if self.states else State(since=act.at)
                self.states.append(after(last, act))

    def run(self, at: datetime, diary: Diary) -> None:
        """Make the digest that is due, after a pause that is over has ended."""
        state = self.states[-1]
        if state.until and not state.is_active and at >= start_of(state.until, state.wishes.zone):
            back = replace(
                state, since=at, is_active=True, what="resumed", until=None,
                promised=start_of(state.until, state.wishes.zone),
            )  # fmt: skip
            state = back.with_promise(at)
            self.states.append(state)
        if not state.is_active or (state.promised and state.promised > at):
            return
        edition, cut = state.due(at), state.cut or at
        state = replace(state, had=state.had | {one.name for one in state.begun(at)})  # made now, or missed
        if edition:
            sent = self.sent(edition, at, diary)
            self.made.append(Made(edition=edition, run=at, sent=sent, wishes=state.wishes, since=cut))
            state = replace(state, cut=at if sent else cut)
        self.states.append(replace(state, since=at, promised=state.upcoming(at).due))

    def sent(self, edition: Slot, run: datetime, diary: Diary) -> datetime | None:
        """Return when an edition was sent: by the next run of a worker, if the reader still gets mail then."""
        sent = next(
            (at for at in diary.runs[bisect_left(diary.runs, run) :] if not is_stopped(at, diary)), None
        )
        ends = {"paused", "left", "removed", "restored"}
        if sent is None or sent >= edition.closes:
            return None
        return None if any(run <= act.at < sent and act.what in ends for act in self.acts) else sent


def is_stopped(at: datetime, diary: Diary) -> bool:
    return any(begin < at <= end for begin, end in diary.stops)


def after(last: State, act: Act) -> State:
    """Return the state after an act of this reader, or of the operator for them."""
    new = replace(last, since=act.at, wishes=act.wishes or last.wishes, what=act.what)
    match act.what:
        case "added":  # today's digest, if its hour has passed
            new = replace(new, is_active=True, cut=act.at)
        case "confirmed":  # the first digest that begins later
            new = replace(new, is_active=True, cut=act.at, promised=new.upcoming(act.at).due)
        case "left" | "removed" | "paused":
            new = replace(new, is_active=False, until=act.until)
        case "returned":  # as if they had never left
            new = replace(new, is_active=True).with_promise(act.at)
        case "resumed":  # today's digest, if its hour has passed and it was not made before the pause
            new = replace(new, is_active=True, until=None, promised=None).with_promise(act.at)
        case "changed" if last.promised and last.promised > act.at and is_other_schedule(last, new):
            new = new.with_promise(act.at)
    return new


def is_other_schedule(old: State, new: State) -> bool:
    """Return whether the hour, the zone or the cadence changed."""
    return old.wishes.changed(words=()) != new.wishes.changed(words=())


def restored(last: State, old: State | None, act: Act) -> State:
    """Return the state after a restore: that of the backup, but for readers who left; what was due then is over."""
    if last.what in {"left", "removed"}:
        return replace(last, since=act.at, what="left")
    if old is None:
        return replace(last, since=act.at, is_active=False, what="gone")
    is_over = old.until and not old.is_active and act.at >= start_of(old.until, old.wishes.zone)
    waits = replace(old, promised=start_of(old.until, old.wishes.zone)) if old.until and is_over else old
    had = old.had | ({one.name for one in waits.begun(act.at)} if old.is_active or is_over else frozenset())
    new = replace(old, since=act.at, what="restored", had=had, cut=act.at)
    return replace(new, promised=new.upcoming(act.at).due)


# ── the calendar ────────────────────────────────────────────────────────────────────────────────


def start_of(day: date, zone: str) -> datetime:
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)


def local_day(moment: datetime, wishes: Wishes) -> date:
    return moment.astimezone(ZoneInfo(wishes.zone)).date()


def edition_on(day: date, wishes: Wishes) -> Slot | None:
    """Return the edition of a local day: it closes at midnight, a weekly or monthly one on the day of the next."""
    cadence, _, weekday = wishes.cadence.partition("-")
    year, week, _ = day.isocalendar()
    chosen = next((n for n, name in enumerate(DAYS) if name.startswith(weekday or "mon")), 0)
    is_day, name, last = {
        "daily": (True, f"daily-{day}", day),
        "weekdays": (day.weekday() < 5, f"daily-{day}", day),
        "weekly": (day.weekday() == chosen, f"weekly-{year}-W{week:02}", day + timedelta(days=6)),
        "monthly": (day.day == 1, f"monthly-{day:%Y-%m}", day + timedelta(days=monthrange(day.year, day.month)[1] - 1)),
    }[cadence]  # fmt: skip
    at = datetime.combine(day, time.fromisoformat(wishes.at), ZoneInfo(wishes.zone)).astimezone(UTC)
    closes = start_of(last + timedelta(days=1), wishes.zone)
    return Slot(name=name, day=day, due=at, closes=closes) if is_day else None


def in_words(moment: datetime, wishes: Wishes, seen_from: datetime) -> str:
    """Return a moment as pages and letters write it."""
    zone = ZoneInfo(wishes.zone)
    local, place = moment.astimezone(zone), wishes.zone.rpartition("/")[2].replace("_", " ")
    weekday = DAYS[local.weekday()].title()
    is_near = local.date() - seen_from.astimezone(zone).date() < timedelta(days=7)
    day = weekday if is_near else f"{weekday} {local.day} {MONTHS[local.month - 1]},"
    return f"{day} {local:%H:%M}, {place}"


# ── the checks ──────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class Findings:
    """What the oracle found: faults, and how often each promise was checked."""

    faults: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def fault(self, at: datetime, email: str, text: str) -> None:
        self.faults.append(f"{at:%m-%d %H:%M} {email}: {text}")


def judge(diary: Diary) -> Findings:
    """Check every promise for every reader."""
    findings = Findings()
    known = {paper.title: paper for paper in diary.papers}
    people, owner = people_of(diary)
    for letter in diary.letters:
        if letter.to not in owner:
            findings.fault(letter.at, letter.to, f"a {letter.kind} letter to a stranger")
            continue
        person = owner[letter.to]
        person.letters.append(letter)
        for title in titles_of(letter, known) if letter.kind in {"digest", "welcome"} else ():
            person.shown[title].append(letter)
    for email, person in people.items():
        person.live(diary)
        check_once(findings, email, person)
        check_will(findings, email, person, diary)
        check_editions(findings, email, person, known)
        check_made(findings, email, person, diary)
    for promise in [*diary.promises, *footers(diary)]:
        check_promise(findings, promise, owner[promise.email])
    for status in diary.statuses:
        check_status(findings, status, list(people.values()))
    for answer in diary.answers:
        check_why(findings, answer, owner[answer.email], known)
    return findings


def people_of(diary: Diary) -> tuple[dict[str, Person], dict[str, Person]]:
    """Return the people by their first address, and by every address that they have had."""
    people: dict[str, Person] = {}
    owner: dict[str, Person] = {}
    for act in sorted(diary.acts, key=lambda act: act.at):
        if act.what == "restored":
            for person in people.values():
                person.acts.append(act)
            continue
        if act.email not in owner:
            people[act.email] = owner[act.email] = Person()
        if act.what == "moved":
            owner[act.to] = owner[act.email]
        owner[act.email].acts.append(act)
    return people, owner


def titles_of(letter: Letter, known: dict[str, LoadedPaper]) -> list[str]:
    """Return the papers of a letter."""
    lines = [re.sub(r"^\d+\. ", "", line.strip()) for line in letter.text.splitlines()]
    return list(dict.fromkeys(line for line in lines if line in known))


def check_once(findings: Findings, email: str, person: Person) -> None:
    """No paper twice, no edition twice."""
    for title, letters in person.shown.items():
        findings.counted["papers once"] += 1
        if len(letters) > 1:
            where = ", ".join(f"{one.kind} {one.edition}" for one in letters)
            findings.fault(letters[-1].at, email, f"“{title}” {len(letters)} times: {where}")
    editions = Counter(one.edition for one in person.letters if one.kind == "digest")
    for edition, count in editions.items():
        if count > 1:
            findings.fault(person.letters[-1].at, email, f"{edition} {count} times")


def check_will(findings: Findings, email: str, person: Person, diary: Diary) -> None:
    """Nobody is mailed against their will."""
    for letter in person.letters:
        findings.counted["letters wanted"] += 1
        for reason in unwanted(letter, person, diary):
            findings.fault(letter.at, email, f"a {letter.kind} letter {reason}")
    confirmed = [one.at for one in person.letters if one.kind == "confirm"]
    if any(later - earlier < timedelta(hours=23) for earlier, later in pairwise(confirmed)):
        findings.fault(confirmed[-1], email, "two confirmations within a day")
    kinds = Counter(one.kind for one in person.letters)
    if kinds["reminder"] > 1 or kinds["goodbye"] > sum(act.what == "left" for act in person.acts):
        findings.fault(person.letters[-1].at, email, "a reminder or a goodbye too many")


def unwanted(letter: Letter, person: Person, diary: Diary) -> Iterator[str]:
    """Yield the reasons why a letter should not have come."""
    state = person.state(letter.at)
    if state is None or (letter.kind in {"digest", "nothing_today"} and not state.is_active):
        yield f"although {state.what if state else 'unknown'}"
    elif state.what in {"left", "removed", "gone"} and letter.kind not in ANSWERS | {"confirm", "reminder"}:
        yield "after they left"
    bounced = sorted({act.at.date() for act in person.acts if act.what == "lost"})
    if len(bounced) >= 5 and letter.at.date() > bounced[4]:
        yield "to an address that does not exist"
    if any(begin < letter.at < end for begin, end in diary.stops):
        yield "while mail was stopped"
    if letter.kind == "confirm" and not any(
        act.what == "asked" and act.at <= letter.at for act in person.acts
    ):
        yield "that nobody asked for"


def check_editions(findings: Findings, email: str, person: Person, known: dict[str, LoadedPaper]) -> None:
    """A digest arrives when its edition was due, and has papers on the topics that the reader had then."""
    for letter in person.letters:
        if letter.kind != "digest":
            continue
        findings.counted["digests when due"] += 1
        made = next(
            (one for one in person.made if one.run == letter.dated and one.edition.name == letter.edition),
            None,
        )
        if made is None or made.sent != letter.at:
            state = person.state(letter.dated)
            findings.fault(
                letter.at, email, f"{letter.edition} of {letter.dated} was not due then: {made} {state}"
            )
            continue
        words = set(made.wishes.words)
        for title in [title for title, letters in person.shown.items() if letter in letters]:
            if words and not words & known[title].words:
                findings.fault(letter.at, email, f"“{title}” is on no topic of theirs")


def check_made(findings: Findings, email: str, person: Person, diary: Diary) -> None:
    """Every edition with new papers comes in its hour, or late because the service was off."""
    lost_at = min((act.at for act in person.acts if act.what == "lost"), default=diary.end)
    for made in person.made:
        if made.sent is not None and made.run < lost_at:
            check_edition(findings, email, person, made, diary)


def check_edition(findings: Findings, email: str, person: Person, made: Made, diary: Diary) -> None:
    """Check that an edition came, with the papers that were new."""
    findings.counted["editions due"] += 1
    words, run, name = set(made.wishes.words), made.run, made.edition.name
    new = [
        paper for paper in diary.papers
        if made.since < paper.loaded_at <= run and (not words or words & paper.words)
        and not any(one.dated < run for one in person.shown.get(paper.title, ()))
    ]  # fmt: skip
    if not new:
        return
    findings.counted["editions with papers"] += 1
    if run - made.edition.due > HOUR:
        findings.counted["late after an outage"] += 1
    came = [
        one for one in person.letters if one.kind == "digest" and one.edition == name and one.dated == run
    ]
    if not came:
        findings.fault(run, email, f"no {name}, although {len(new)} papers are new, such as “{new[0].title}”")
        return
    shown = [title for title, letters in person.shown.items() if came[0] in letters]
    missing = [paper.title for paper in new if paper.title not in shown]
    if missing and len(shown) < CAP:
        findings.fault(run, email, f"{name} has {len(shown)} papers and lacks “{missing[0]}”")


# ── promises and reasons ────────────────────────────────────────────────────────────────────────


def footers(diary: Diary) -> Iterator[Stated]:
    """Yield the promise at the end of each digest."""
    for letter in diary.letters:
        if letter.kind == "digest" and (
            found := re.search(r"^Next digest: (.+)$", letter.text, re.MULTILINE)
        ):
            yield Stated(at=letter.dated, email=letter.to, text=found[1])


def check_promise(findings: Findings, promise: Stated, person: Person) -> None:
    """A page, letter or command names the digest that comes next; for a reader who gets none, a command names none."""
    state = person.state(promise.at)
    due = state.next(promise.at).due if state and state.is_active else None
    findings.counted["promises"] += 1
    if not promise.text and promise.due != due:
        findings.fault(promise.at, promise.email, f"promised {promise.due} instead of {due} {state}")
    if not promise.text or not due or not state:
        return
    right = in_words(due, state.wishes, promise.at) if due > promise.at else "today, if there are new papers"
    if promise.text.replace(",", "") != right.replace(",", ""):
        findings.fault(promise.at, promise.email, f"promised {promise.text!r} instead of {right!r} {state}")


def check_status(findings: Findings, status: Status, people: list[Person]) -> None:
    """What `digest status` says: when the next digest is due, and since when something is wrong."""
    findings.counted["statuses"] += 1
    before = status.at - timedelta(seconds=1)  # the operator looks, and then acts
    active = [state for person in people if (state := person.state(before)) and state.is_active]
    later = [state.promised for state in active if state.promised and state.promised > status.at]
    now = [state for state in active if not state.promised or state.promised <= status.at]
    due = sum(state.due(status.at) is not None for state in now)
    following = min([*later, *(state.upcoming(status.at).due for state in now)], default=None)
    if status.due_now != due:
        findings.fault(status.at, "status", f"{status.due_now} due, but it is {due}")
    if status.next_due != following:
        findings.fault(status.at, "status", f"next due {status.next_due}, but it is {following}")
    for wrong in [one for one in status.since if one > status.at] + [
        one for one in status.until if one < status.at
    ]:
        findings.fault(status.at, "status", f"a time on the wrong side of now: {wrong}")


def check_why(findings: Findings, answer: Answer, person: Person, known: dict[str, LoadedPaper]) -> None:
    """What `digest why` says is what happened."""
    findings.counted["answers"] += 1
    first = answer.text.splitlines()[0]
    if answer.title:
        problem = wrong_about_paper(answer, first, person, known)
    else:
        problem = wrong_about_edition(answer, first, person)
    if problem:
        findings.fault(
            answer.at, answer.email, f"why {answer.title or answer.edition}: {first!r}, but {problem}"
        )


def wrong_about_paper(answer: Answer, first: str, person: Person, known: dict[str, LoadedPaper]) -> str:
    """Return what is wrong with an answer about a paper, or an empty string."""
    letters = [one for one in person.shown.get(answer.title, ()) if one.at <= answer.at]
    if letters and "restored from a backup" in first and has_restored(person, answer, letters[0]):
        return ""  # the catalog of the backup does not have the paper
    if letters:
        where = letters[0].edition if letters[0].kind == "digest" else "another letter"
        return "" if first.startswith("Shown on") and where in first else f"it arrived in {where}"
    if first.startswith("Shown on"):
        return "it never arrived" if "sent" in answer.text.splitlines()[-1] else ""
    state, paper = person.state(answer.at), known[answer.title]
    assert state is not None
    joined = min(one.since for one in person.states if one.is_active)
    begin = answer.at - timedelta(days=70)
    states = [one for one in person.states if one.since <= answer.at]
    wishes = [one.wishes for one in states if one.since > begin or one is states[-1]]
    untrue = {
        "no topic matches": all(not one.words or set(one.words) & paper.words for one in wishes),
        "It is new for": bool(state.wishes.words) and not set(state.wishes.words) & paper.words,
        "was full": all(one.words and not set(one.words) & paper.words for one in wishes),
        "paused": state.what not in {"paused", "changed", "moved", "restored"},
        "unsubscribed": state.what not in {"left", "removed"},
        "before they subscribed": paper.loaded_at >= joined,
    }
    wrong = [words for words, is_untrue in untrue.items() if words in first and is_untrue]
    return f"that is untrue: {wrong[0]} ({state})" if wrong else wrong_times(answer, first)


def wrong_about_edition(answer: Answer, first: str, person: Person) -> str:
    """Return what is wrong with an answer about an edition, or an empty string."""
    name = first.partition(":")[0]
    arrived = [
        one for one in person.letters if one.kind == "digest" and one.edition == name and one.at <= answer.at
    ]
    if "accepted it" in first:
        return "" if arrived else "it never arrived"
    if arrived and "may have been sent before" in first and has_restored(person, answer, arrived[0]):
        return ""
    if arrived:
        return f"it arrived on {arrived[0].at}"
    return wrong_times(answer, first)


def has_restored(person: Person, answer: Answer, letter: Letter) -> bool:
    """Return whether the database was restored from a backup after a letter arrived."""
    return any(act.what == "restored" and letter.at < act.at <= answer.at for act in person.acts)


def wrong_times(answer: Answer, first: str) -> str:
    """Return what is wrong with the times in an answer: what is due lies ahead, what happened does not."""
    for words, stamp in re.findall(
        r"(is due on|due|since|on|accepted it \() ?(\d{4}-\d\d-\d\d \d\d:\d\d) UTC", first
    ):
        moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
        if words in {"since", "accepted it ("} and moment > answer.at:
            return "that is in the future"
        if words in {"is due on", "due"} and moment < answer.at - timedelta(hours=1, minutes=5):
            return "that is past"
    return ""
