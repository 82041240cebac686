"""Compare what arrived with what README and docs promise. Imports nothing of `digest`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from tests.pilot.diary import Act, Answer, Diary, Letter, LoadedPaper, Stated, Status, Wishes

HOUR = timedelta(hours=1)
CAP = 10  #: papers in a digest
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: For so long after a change of the schedule, docs do not say which edition is the next.
UNSETTLED = {"daily": 2, "weekdays": 4, "weekly": 9, "monthly": 33}
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
        "reply",
        "help",
    }
)


@dataclass(kw_only=True)
class State:
    """What a reader is and wants from a moment on."""

    since: datetime
    is_active: bool
    wishes: Wishes
    until: date | None = None  #: the first day with digests after a pause
    what: str = ""


@dataclass(kw_only=True)
class Person:
    """A reader with the addresses that they have had, and what happened to them."""

    acts: list[Act] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)

    @cached_property
    def states(self) -> list[State]:
        """Return the reader's states in their order."""
        found: list[State] = []
        for act in self.acts:
            if act.what == "restored":
                found += restored(found, act)
            else:
                found.append(after(found, act))
        return found

    def state(self, at: datetime) -> State | None:
        """Return the reader's state at a moment, with pauses that have ended by then."""
        last = next((one for one in reversed(self.states) if one.since <= at), None)
        if last and last.until and not last.is_active and at >= start_of(last.until, last.wishes.zone):
            return State(
                since=start_of(last.until, last.wishes.zone),
                is_active=True,
                wishes=last.wishes,
                what="resumed",
            )
        return last

    def wishes_around(self, at: datetime, span: timedelta) -> list[Wishes]:
        """Return the wishes that held at some time of the span before a moment."""
        found = [one.wishes for one in self.states if at - span <= one.since <= at]
        before = [one.wishes for one in self.states if one.since < at - span]
        return found + before[-1:]

    def is_unsettled(self, at: datetime) -> bool:
        """Return whether a recent change of the schedule makes it unclear which edition comes next."""
        kinds = {one.cadence.partition("-")[0] for one in self.wishes_around(at, timedelta(days=34))}
        begin = at - timedelta(days=max(UNSETTLED[kind] for kind in kinds))
        state = self.state(at)
        has_resumed = state is not None and state.what == "resumed" and state.since > begin
        pairs = pairwise(self.states)
        return has_resumed or any(
            begin <= new.since <= at and (is_other_schedule(old, new) or new.what in UNCLEAR)
            for old, new in pairs
        )

    @cached_property
    def shown(self) -> dict[str, list[Letter]]:
        """Return the papers of digests and welcome letters, each with the letters that had it."""
        return defaultdict(list)


#: Acts after which docs do not say which edition comes next.
UNCLEAR = frozenset({"paused", "resumed", "left", "returned", "restored"})


def is_other_schedule(old: State, new: State) -> bool:
    """Return whether the hour, the zone or the cadence changed."""
    return old.wishes.changed(words=()) != new.wishes.changed(words=())


def after(before: list[State], act: Act) -> State:
    """Return the state after an act."""
    last = before[-1] if before else State(since=act.at, is_active=False, wishes=Wishes())
    wishes = act.wishes or last.wishes
    is_active = {
        "asked": last.is_active, "confirmed": True, "added": True, "left": False, "returned": True, "removed": False,
        "paused": False, "resumed": True, "lost": last.is_active,
    }.get(act.what, last.is_active)  # fmt: skip
    until = act.until if act.what == "paused" else last.until if act.what in {"changed", "moved"} else None
    return State(since=act.at, is_active=is_active, wishes=wishes, until=until, what=act.what)


def restored(before: list[State], act: Act) -> Iterator[State]:
    """Yield the state after a restore: that of the backup, but for readers who left."""
    assert act.since is not None
    old = next((one for one in reversed(before) if one.since <= act.since), None)
    has_left = bool(before) and before[-1].what in {"left", "removed"}
    if old is None or has_left:
        yield State(
            since=act.at, is_active=False, wishes=before[-1].wishes, what="left" if has_left else "gone"
        )
    else:
        yield State(
            since=act.at, is_active=old.is_active, wishes=old.wishes, until=old.until, what="restored"
        )


# ── the calendar ────────────────────────────────────────────────────────────────────────────────


def start_of(day: date, zone: str) -> datetime:
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)


def due_on(day: date, wishes: Wishes) -> datetime | None:
    """Return when the edition of a local day is due, if there is one."""
    cadence, _, weekday = wishes.cadence.partition("-")
    wanted = next((n for n, name in enumerate(DAYS) if name.startswith(weekday or "mon")), 0)
    is_day = {
        "daily": True, "weekdays": day.weekday() < 5, "weekly": day.weekday() == wanted, "monthly": day.day == 1,
    }[cadence]  # fmt: skip
    at = time.fromisoformat(wishes.at)
    return datetime.combine(day, at, ZoneInfo(wishes.zone)).astimezone(UTC) if is_day else None


def closes(day: date, wishes: Wishes) -> datetime:
    """Return when the edition of a local day expires: a daily one at midnight, others on the day of the next."""
    ahead = {"daily": 1, "weekdays": 1, "weekly": 7}.get(wishes.cadence.partition("-")[0])
    if ahead is None:
        following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        return start_of(following, wishes.zone)
    return start_of(day + timedelta(days=ahead), wishes.zone)


def next_due(at: datetime, wishes: Wishes) -> Iterator[datetime]:
    """Yield the due times after a moment."""
    day = at.astimezone(ZoneInfo(wishes.zone)).date() - timedelta(days=1)
    for ahead in range(75):
        due = due_on(day + timedelta(days=ahead), wishes)
        if due and due > at:
            yield due


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
        if letter.kind in {"digest", "welcome"}:
            for title in titles_of(letter, known):
                person.shown[title].append(letter)
    for email, person in people.items():
        check_once(findings, email, person)
        check_will(findings, email, person, diary)
        check_editions(findings, email, person, known)
        check_due(findings, email, person, diary)
    for promise in [*diary.promises, *footers(diary)]:
        check_promise(findings, promise, owner[promise.email], diary)
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
    """A digest arrives on its day and not before its hour, and has papers on the reader's topics only."""
    for letter in person.letters:
        if letter.kind != "digest":
            continue
        findings.counted["digests on their day"] += 1
        wishes = person.wishes_around(letter.at, timedelta(days=3))
        if not any(is_in_time(letter, one) for one in wishes):
            findings.fault(letter.at, email, f"{letter.edition} at a time that nobody chose: {wishes}")
        for title in [title for title, letters in person.shown.items() if letter in letters]:
            words = {word for one in wishes for word in one.words}
            has_any = any(not one.words for one in wishes)
            if not has_any and not words & known[title].words:
                findings.fault(letter.at, email, f"“{title}” is on no topic of theirs")


def is_in_time(letter: Letter, wishes: Wishes) -> bool:
    """Return whether a digest may have arrived now for a reader with these wishes."""
    today = letter.at.astimezone(ZoneInfo(wishes.zone)).date()
    for back in range(32):
        day = today - timedelta(days=back)
        due = due_on(day, wishes)
        if due and due <= letter.at < closes(day, wishes) and letter.edition == edition_name(day, wishes):
            return True
    return False


def edition_name(day: date, wishes: Wishes) -> str:
    year, week, _ = day.isocalendar()
    match wishes.cadence.partition("-")[0]:
        case "weekly":
            return f"weekly-{year}-W{week:02}"
        case "monthly":
            return f"monthly-{day:%Y-%m}"
        case kind:
            return f"{kind}-{day}" if kind == "daily" else f"daily-{day}"


def check_due(findings: Findings, email: str, person: Person, diary: Diary) -> None:
    """Every edition with new papers comes in its hour, or late because the service was off."""
    cut = min((one.since for one in person.states if one.is_active), default=diary.end)
    day = diary.begin.date() - timedelta(days=2)
    while day < diary.end.date():
        day += timedelta(days=1)
        state = person.state(start_of(day, "UTC") + timedelta(hours=12))
        due = due_on(day, state.wishes) if state else None
        state = person.state(due) if due else None
        if due is None or state is None or due_on(day, state.wishes) != due:
            continue
        run = first(diary.composed, due)
        sent = first(diary.runs, run) if run else None
        if run is None or sent is None or sent >= closes(day, state.wishes):
            continue  # the service was off; the papers are in the next digest
        if state.is_active and not person.is_unsettled(run) and not is_lost(person, run):
            since = max([cut, *(act.at for act in person.acts if act.what == "restored" and act.at <= run)])
            check_edition(findings, email, person, diary, state, day, run, since)
        cut = run


def is_lost(person: Person, at: datetime) -> bool:
    return any(act.what == "lost" and act.at <= at for act in person.acts)


def check_edition(
    findings: Findings,
    email: str,
    person: Person,
    diary: Diary,
    state: State,
    day: date,
    run: datetime,
    cut: datetime,
) -> None:
    """Check one edition for which nothing is unclear."""
    findings.counted["editions due"] += 1
    words = set(state.wishes.words)
    new = [
        paper for paper in diary.papers
        if cut < paper.loaded_at <= run and (not words or words & paper.words)
        and not any(one.dated < run for one in person.shown.get(paper.title, ()))
    ]  # fmt: skip
    came = [
        one
        for one in person.letters
        if one.kind == "digest" and one.edition == edition_name(day, state.wishes)
    ]
    if not new:
        return
    findings.counted["editions with papers"] += 1
    if run - (due_on(day, state.wishes) or run) > HOUR:
        findings.counted["late after an outage"] += 1
    sent = first(diary.runs, run)
    if not came or not sent or came[0].at > sent:
        findings.fault(run, email, f"no digest, although {len(new)} papers are new, such as “{new[0].title}”")
        return
    shown = [title for title, letters in person.shown.items() if came[0] in letters]
    missing = [paper.title for paper in new if paper.title not in shown]
    if missing and len(shown) < CAP:
        findings.fault(run, email, f"{came[0].edition} has {len(shown)} papers and lacks “{missing[0]}”")


def first(moments: list[datetime], at: datetime) -> datetime | None:
    """Return the first moment that is not before another."""
    place = bisect_left(moments, at)
    return moments[place] if place < len(moments) else None


# ── promises and reasons ────────────────────────────────────────────────────────────────────────


def footers(diary: Diary) -> Iterator[Stated]:
    """Yield the promise at the end of each digest."""
    for letter in diary.letters:
        if letter.kind == "digest" and (
            found := re.search(r"^Next digest: (.+)$", letter.text, re.MULTILINE)
        ):
            yield Stated(at=letter.dated, email=letter.to, text=found[1])


def check_promise(findings: Findings, promise: Stated, person: Person, diary: Diary) -> None:
    """A page or letter names the next due time."""
    state = person.state(promise.at)
    if state is None or not state.is_active:
        return
    findings.counted["promises"] += 1
    ahead = next_due(promise.at, state.wishes)
    allowed = [in_words(next(ahead), state.wishes, promise.at)]
    if person.is_unsettled(promise.at):
        allowed.append(in_words(next(ahead), state.wishes, promise.at))
    if promise.text not in {*allowed, "today, if there are new papers"}:
        findings.fault(promise.at, promise.email, f"promised {promise.text!r} instead of {allowed[0]!r}")


def check_status(findings: Findings, status: Status, people: list[Person]) -> None:
    """What `digest status` says: when the next digest is due, and since when something is wrong."""
    findings.counted["statuses"] += 1
    before = status.at - timedelta(seconds=1)  # the operator looks, and then acts
    states = [(person, person.state(before)) for person in people]
    active = [(person, state) for person, state in states if state and state.is_active]
    soon = [
        next(next_due(status.at, state.wishes))
        for person, state in active
        if not person.is_unsettled(status.at)
    ]
    said = status.next_due
    if said is None or said <= status.at or (soon and said > min(soon)):
        findings.fault(status.at, "status", f"next due {said}, but it is {min(soon, default=None)}")
    chosen = {moment for _, state in active for moment in islice(next_due(status.at, state.wishes), 2)}
    if said not in chosen:
        findings.fault(status.at, "status", f"next due {said}, which nobody chose")
    if status.due_now > len(active):
        findings.fault(status.at, "status", f"{status.due_now} due of {len(active)} active readers")
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
    if letters:
        where = letters[0].edition if letters[0].kind == "digest" else "another letter"
        return "" if first.startswith("Shown on") and where in first else f"it arrived in {where}"
    if first.startswith("Shown on"):
        return "it never arrived" if "sent" in answer.text.splitlines()[-1] else ""
    state, paper = person.state(answer.at), known[answer.title]
    assert state is not None
    joined = min(one.since for one in person.states if one.is_active)
    wishes = person.wishes_around(answer.at, timedelta(days=70))
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
    if arrived:
        return f"it arrived on {arrived[0].at}"
    return wrong_times(answer, first)


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
