"""Sixty days of a service: lists, readers, outages and an operator, drawn from a seed."""

from __future__ import annotations

import copy
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from html import unescape
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.pilot.diary import Act, Diary, Letter, Stated, Wishes
from tests.pilot.service import SITE, Service

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)  #: between two acts, so that their order is known
ZONES = (
    "UTC", "Europe/Oslo", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago",
    "America/Los_Angeles", "America/Nuuk", "America/Sao_Paulo", "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu",
    "Asia/Tehran", "Asia/Shanghai", "Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland",
    "Pacific/Honolulu", "Pacific/Kiritimati", "Africa/Cairo",
)  # fmt: skip
HOURS = ("00:00", "06:30", "07:00", "08:00", "08:00", "12:15", "18:00", "22:45", "23:30")
CADENCES = (
    *["daily"] * 9, *["weekdays"] * 3, "weekly-mon", "weekly-wed", "weekly-fri", "weekly-sun", "monthly",
)  # fmt: skip
TOPICS = (
    "robots", "glaciers", "lasers", "proteins", "bridges", "orchids", "satellites", "pigments", "rivers",
    "violins", "magnets", "volcanoes",
)  # fmt: skip
QUALITIES = (
    "Patient", "Silent", "Copper", "Northern", "Hollow", "Early", "Bright", "Distant", "Gentle", "Rapid", "Frozen",
    "Woven", "Crooked", "Amber", "Shallow", "Sturdy", "Restless", "Ancient", "Curved", "Velvet",
)  # fmt: skip
PLACES = (
    "Harbours", "Orchards", "Valleys", "Kitchens", "Islands", "Deserts", "Libraries", "Stations", "Meadows", "Attics",
    "Canyons", "Markets", "Cellars", "Lagoons", "Terraces", "Forests", "Villages", "Quarries", "Gardens", "Towers",
)  # fmt: skip
ABSTRACT_WORDS = [
    "we",
    "study",
    "how",
    "measured",
    "data",
    "change",
    "under",
    "slow",
    "load",
    "and",
    "compare",
    "simple",
    "models",
    "with",
    "careful",
    "tests",
    "over",
    "many",
    "years",
    "small",
    "errors",
    "grow",
    "when",
    "samples",
    "are",
    "few",
    "while",
    "larger",
    "sets",
    "give",
    "stable",
    "results",
    "our",
    "method",
    "needs",
    "less",
    "memory",
    "than",
    "earlier",
    "work",
    "because",
    "each",
    "step",
    "keeps",
    "only",
    "partial",
    "sums",
    "and",
    "drops",
    "weak",
    "terms",
    "experiments",
    "on",
    "public",
    "records",
    "show",
    "clear",
    "gains",
    "for",
    "most",
    "cases",
    "although",
    "some",
    "remain",
    "hard",
    "to",
    "explain",
    "further",
    "study",
    "may",
    "reveal",
    "whether",
    "noise",
    "or",
    "bias",
    "is",
    "the",
    "main",
    "cause",
    "of",
    "these",
    "gaps",
    "in",
    "practice",
]
PROMISE = re.compile(r"Next digest: ([^<]+?)\.")


@dataclass
class Resident:
    """What a reader's own life needs: where they are, and the links of their letters."""

    email: str
    wishes: Wishes
    #: asked, active, paused, left
    state: str = "active"
    previous: Wishes | None = None
    network: str = "192.0.2.1"
    bounces: bool = False
    never_confirms: bool = False


@dataclass
class Life:
    """The story of a service."""

    service: Service
    chance: random.Random
    readers_at_end: int
    readers: list[Resident] = field(default_factory=list)
    number: int = 0
    read: int = 0  #: letters that their readers have opened
    waiting: list[tuple[datetime, Callable[[], None]]] = field(default_factory=list)
    titles: Iterator[str] = field(default_factory=lambda: iter(()))
    lists: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    backup: tuple[datetime, list[Resident]] | None = None

    @property
    def diary(self) -> Diary:
        return self.service.diary

    @property
    def now(self) -> datetime:
        return self.service.now

    def note(self, what: str, reader: Resident, **more: object) -> None:
        """Note what a reader did, with their wishes from then on."""
        act = Act(at=self.now, email=reader.email, what=what, wishes=reader.wishes, **more)  # type: ignore[arg-type]
        self.diary.acts.append(act)

    # ── the days ────────────────────────────────────────────────────────────────────────────────

    def live(self) -> None:
        """Live from the begin of the diary to its end."""
        diary = self.diary
        days = (diary.end - diary.begin).days
        self.titles = titles(self.chance)
        off = outages(self.chance, diary.begin, days)
        self.service.open()
        for _ in range(5):
            self.add_reader()
        self.import_readers(self.readers_at_end * 3 // 4 - 5)
        morning = diary.begin
        while morning < diary.end:
            plan = self.plan(morning, days)
            for hour in range(24):
                begin = morning + hour * HOUR
                kind = next((kind for first, last, kind in off if first <= begin < last), "on")
                if kind == "off":
                    continue
                self.service.now = begin + timedelta(minutes=5)
                self.work(kind)
                for minute, act in sorted(plan.pop(hour, []), key=lambda one: one[0]):
                    self.service.now = max(begin + timedelta(minutes=minute), self.now + SECOND)
                    act()
            morning += timedelta(days=1)

    def work(self, kind: str) -> None:
        """Let the service do its due work, or only the part of it that runs; then readers open their letters."""
        self.service.work(kind)
        for letter in self.diary.letters[self.read :]:
            self.open(letter)
        self.read = len(self.diary.letters)
        due = [act for at, act in self.waiting if at <= self.now]
        self.waiting = [(at, act) for at, act in self.waiting if at > self.now]
        for act in due:
            self.service.now += SECOND
            act()

    def plan(self, morning: datetime, days: int) -> dict[int, list[tuple[int, Callable[[], None]]]]:
        """Return what happens on a day, by hour and minute."""
        plan: dict[int, list[tuple[int, Callable[[], None]]]] = {}

        def at(hour: int, minute: int, act: Callable[[], None]) -> None:
            plan.setdefault(hour, []).append((minute, act))

        for hour, act in self.lists_of(morning):
            at(hour, 6 + self.chance.randrange(50), act)
        for _ in range(max(8, self.readers_at_end // 12)):
            at(self.chance.randrange(24), 10 + self.chance.randrange(45), self.somebody_acts)
        for _ in range(6):
            at(self.chance.randrange(24), 10 + self.chance.randrange(45), self.operator_asks)
        day = (morning - self.diary.begin).days
        if day == days * 3 // 5:
            self.waiting.append((morning + 3 * HOUR, self.back_up))
        if day == days * 3 // 5 + 1:
            self.waiting.append((morning + 15 * HOUR, self.restore))
        return plan

    # ── lists ───────────────────────────────────────────────────────────────────────────────────

    def lists_of(self, morning: datetime) -> Iterator[tuple[int, Callable[[], None]]]:
        """Yield the hours and loads of a day's lists: on time, late, twice, short, or not at all."""
        if morning.weekday() > 4 or self.chance.random() < 0.06:
            return
        fresh = [self.paper() for _ in range(24 + self.chance.randrange(6))]
        name = f"{morning:%Y-%m-%d}"
        hour = self.chance.choice([4, 4, 4, 4, 5, 9, 13, 21])
        if self.chance.random() < 0.08:
            yield hour, lambda: self.load(f"{name}-part", fresh[:3], may_be_held=True)
            hour = min(23, hour + 5)
        yield hour, lambda: self.load(name, fresh)
        if self.chance.random() < 0.2:
            again = [*self.lists[-12:], *(self.paper() for _ in range(12))]
            yield min(23, hour + 1), lambda: self.load(f"{name}-again", again)
        if self.chance.random() < 0.1:
            yield min(23, hour + 2), lambda: self.load(name, fresh)

    def paper(self) -> tuple[str, frozenset[str]]:
        title = next(self.titles)
        words = frozenset(word for word in TOPICS if word.title() in title)
        self.lists.append((title, words))
        return self.lists[-1]

    def load(self, name: str, papers: list[tuple[str, frozenset[str]]], *, may_be_held: bool = False) -> None:
        """Drop a list and load it."""
        path = self.service.folder / f"{name}.json"
        path.write_text(json.dumps([record(title, words) for title, words in papers]))
        accepted = self.service.load(path, papers)
        assert accepted or may_be_held, (self.now, name)

    # ── readers ─────────────────────────────────────────────────────────────────────────────────

    def wishes(self) -> Wishes:
        words = self.chance.sample(TOPICS, self.chance.choice([0, 1, 1, 2, 3]))
        return Wishes(
            cadence=self.chance.choice(CADENCES), at=self.chance.choice(HOURS), zone=self.chance.choice(ZONES),
            words=tuple(words),
        )  # fmt: skip

    def new_reader(self) -> Resident:
        self.number += 1
        network = f"20.{self.number // 200}.{self.number % 200}.7"
        reader = Resident(
            email=f"reader-{self.number}@uni-{self.number}.example", wishes=self.wishes(), network=network
        )
        self.readers.append(reader)
        return reader

    def add_reader(self) -> None:
        """The operator adds somebody who agreed."""
        reader = self.new_reader()
        wants = reader.wishes
        topics = [part for word in wants.words for part in ("--topic", f"{word}={word}")]
        self.service.run(
            "subscribers", "add", reader.email, *topics, "--cadence", wants.cadence, "--at", wants.at,
            "--timezone", wants.zone, "--confirmed", "--consent", "asked in the seminar",
        )  # fmt: skip
        self.note("added", reader)

    def import_readers(self, number: int = 3) -> None:
        """The operator imports a file."""
        few = [self.new_reader() for _ in range(number)]
        path = self.service.folder / f"import-{self.number}.csv"
        lines = [
            f"{one.email},{one.wishes.cadence},{one.wishes.at},{one.wishes.zone},active,"
            + "; ".join(f"{word}={word}" for word in one.wishes.words)
            for one in few
        ]
        path.write_text("\n".join(["email,cadence,at,timezone,state,topics", *lines]) + "\n")
        self.service.run("subscribers", "import", str(path), "--consent", "asked in the seminar")
        for one in few:
            self.note("added", one)

    def sign_up(self) -> None:
        """A stranger signs up on the page; some never confirm."""
        reader = self.new_reader()
        reader.state, reader.never_confirms = "asked", self.chance.random() < 0.25
        reader.wishes = reader.wishes.changed(words=reader.wishes.words[:1])
        wants = reader.wishes
        fields = {"email": reader.email, "cadence": wants.cadence, "at": wants.at, "timezone": wants.zone}
        page = self.service.sign_up(fields | {"filter": " ".join(wants.words)}, reader.network)
        assert "Check your inbox." in page, page
        self.note("asked", reader)

    def open(self, letter: Letter) -> None:
        """A reader opens a letter."""
        reader = next((one for one in self.readers if one.email == letter.to), None)
        if reader is None:
            return
        if reader.bounces:
            self.service.bounce(letter)
            self.note("lost", reader)
        elif letter.kind in {"confirm", "reminder"} and reader.state == "asked" and not reader.never_confirms:
            later = self.now + self.chance.randrange(1, 30) * HOUR
            path = link(letter, "c")
            self.waiting.append((later, lambda: self.confirm(reader, path)))
        elif letter.kind == "account_link":
            self.move(reader, link(letter, "d"))

    def confirm(self, reader: Resident, path: str) -> None:
        if reader.state == "asked":
            assert "You are subscribed" in self.service.press(path, {}, reader.network)
            reader.state = "active"
            self.note("confirmed", reader)

    def somebody_acts(self) -> None:
        """Somebody signs up, or a reader does something."""
        if len(self.readers) < self.readers_at_end and self.chance.random() < 0.35:
            self.sign_up()
            return
        reader = self.chance.choice(self.readers)
        links_of = [
            one for one in reversed(self.diary.letters) if one.to == reader.email and one.kind == "digest"
        ]
        if not links_of or reader.bounces or reader.state in {"asked", "gone", "removed"}:
            return
        letter = links_of[0]
        if reader.state == "left":
            self.come_back(reader, letter)
            return
        choices = [
            self.change,
            self.change,
            self.change_topics,
            self.pause,
            self.leave,
            self.undo,
            self.ask_to_move,
        ]
        self.chance.choice([self.resume] if reader.state == "paused" else choices)(reader, letter)
        if reader.state == "active":
            self.note_promise(reader, self.service.page(link(letter, "t")))

    def note_promise(self, reader: Resident, page: str) -> None:
        if found := PROMISE.search(unescape(page)):
            self.diary.promises.append(Stated(at=self.now, email=reader.email, text=found[1]))

    def change(self, reader: Resident, letter: Letter) -> None:
        """Change hour, zone or cadence on the page behind a digest."""
        old, fresh = reader.wishes, self.wishes()
        part = self.chance.choice([{"at": fresh.at}, {"zone": fresh.zone}, {"cadence": fresh.cadence}])
        new = old.changed(**part)
        fields = {"do": "schedule", "cadence": new.cadence, "at": new.at, "timezone": new.zone}
        self.service.press(link(letter, "t"), fields | {"max_papers": "10", "abstracts": "short"})
        if new != old:
            reader.previous, reader.wishes = old, new
            self.note("changed", reader)

    def change_topics(self, reader: Resident, letter: Letter) -> None:
        """Add a topic, or remove one."""
        old = reader.wishes
        if old.words and self.chance.random() < 0.5:
            word = self.chance.choice(old.words)
            words = tuple(one for one in old.words if one != word)
            page = self.service.press(link(letter, "t"), {"do": "remove", "topic": word})
        else:
            word = self.chance.choice([one for one in TOPICS if one not in old.words])
            words = (*old.words, word)
            page = self.service.press(link(letter, "t"), {"do": "add", "name": word, "filter": word})
        assert "nothing was saved" not in page, page
        reader.previous, reader.wishes = old, old.changed(words=words)
        self.note("changed", reader)

    def undo(self, reader: Resident, letter: Letter) -> None:
        """Undo the latest change."""
        if reader.previous:
            page = self.service.press(link(letter, "t"), {"do": "undo-change"})
            assert "Undone." in page, page
            reader.wishes, reader.previous = reader.previous, None
            self.note("changed", reader)

    def pause(self, reader: Resident, letter: Letter) -> None:
        """Pause for some days, on the page or by mail."""
        today = self.now.astimezone(ZoneInfo(reader.wishes.zone)).date()
        until: date | None = today + timedelta(days=7)
        if self.chance.random() < 0.3:
            self.service.write(reader.email, "pause 1 week")
        elif self.chance.random() < 0.3:
            until = None
            self.service.press(link(letter, "t"), {"do": "pause", "days": "0"})
        else:
            until = today + timedelta(days=self.chance.randint(1, 12))
            self.service.press(link(letter, "t"), {"do": "pause-until", "until": until.isoformat()})
        reader.state, reader.previous = "paused", None
        self.note("paused", reader, until=until)
        if until:
            self.waiting.append((at_start(until, reader.wishes.zone), lambda: self.pause_is_over(reader)))

    def pause_is_over(self, reader: Resident) -> None:
        if reader.state == "paused":
            reader.state = "active"

    def resume(self, reader: Resident, letter: Letter) -> None:
        self.service.press(link(letter, "t"), {"do": "resume"})
        reader.state = "active"
        self.note("resumed", reader)

    def leave(self, reader: Resident, letter: Letter) -> None:
        """Unsubscribe: with one click, on the page, or by mail."""
        if self.chance.random() < 0.5:
            return
        if self.chance.random() < 0.1:
            reader.bounces = True
            return
        way = self.chance.randrange(3)
        if way == 0:
            self.service.press(link(letter, "u"), {"List-Unsubscribe": "One-Click"})
        elif way == 1:
            self.service.press(link(letter, "u"), {})
        else:
            self.service.write(reader.email, "unsubscribe")
        reader.state, reader.previous = "left", None
        self.note("left", reader)
        if self.chance.random() < 0.3:  # a mistake
            self.service.now += timedelta(minutes=1)
            self.come_back(reader, letter)

    def come_back(self, reader: Resident, letter: Letter) -> None:
        left = next(
            act for act in reversed(self.diary.acts) if act.email == reader.email and act.what == "left"
        )
        if self.now - left.at < timedelta(days=1):
            page = self.service.press(link(letter, "u"), {"do": "undo"})
            assert "You are subscribed again." in page, page
            reader.state = "active"
            self.note("returned", reader)

    def ask_to_move(self, reader: Resident, letter: Letter) -> None:
        """Ask for the link with which the address can be changed."""
        del letter
        manage = [one for one in self.diary.letters if one.to == reader.email and "/m/" in one.text]
        if manage:
            self.service.press(link(manage[-1], "m"), {"do": "account"})

    def move(self, reader: Resident, path: str) -> None:
        """Ask for a new address, and confirm it when its letter arrives."""
        new = f"moved-{reader.email}"
        self.service.press(path, {"do": "address", "email": new})
        self.diary.acts.append(
            Act(at=self.now, email=reader.email, what="moved", to=new, wishes=reader.wishes)
        )

        def confirm() -> None:
            letter = next((one for one in reversed(self.diary.letters) if one.to == new), None)
            if letter is None:  # no worker runs
                self.waiting.append((self.now + HOUR, confirm))
            elif self.now - letter.dated < timedelta(hours=48):  # as the letter says
                self.service.press(link(letter, "e"), {})
                reader.email = new

        self.waiting.append((self.now + 2 * HOUR, confirm))

    # ── the operator ────────────────────────────────────────────────────────────────────────────

    def operator_asks(self) -> None:
        """The operator asks why, or edits, imports and removes."""
        reader = self.chance.choice(self.readers)
        roll = self.chance.random()
        self.service.look()
        if reader.state in {"asked", "gone", "removed"}:
            return
        if roll < 0.45 and self.diary.papers:
            self.service.ask_why(reader.email, title=self.chance.choice(self.diary.papers[-200:]).title)
        elif roll < 0.9:
            day = self.now.astimezone(ZoneInfo(reader.wishes.zone)).date() - timedelta(
                days=self.chance.randint(-1, 5)
            )
            self.service.ask_why(reader.email, edition=day.isoformat())
            self.service.ask_next(reader.email)
        elif roll < 0.95 and reader.state in {"active", "paused"}:
            new = reader.wishes.changed(at=self.chance.choice(HOURS))
            self.service.run("subscribers", "edit", reader.email, "--at", new.at)
            if new != reader.wishes:
                reader.previous, reader.wishes = reader.wishes, new
                self.note("changed", reader)
            self.service.ask_next(reader.email)
        elif len(self.readers) < self.readers_at_end:
            self.import_readers()
        elif reader.state == "active":
            self.service.run("subscribers", "remove", reader.email, "--yes")
            reader.state = "removed"
            self.note("removed", reader)

    def back_up(self) -> None:
        self.service.run("backup", str(self.service.folder / "pilot.backup"))
        self.backup = self.now, copy.deepcopy(self.readers)

    def restore(self) -> None:
        """The database is lost: restore the backup into an empty one, and resume mail an hour later."""
        assert self.backup
        since, known = self.backup
        self.service.open()
        self.service.run("restore", str(self.service.folder / "pilot.backup"))
        self.diary.acts.append(Act(at=self.now, email="", what="restored", since=since))
        end = self.now + HOUR
        self.diary.stops.append((self.now, end))
        left = {one.email for one in self.readers if one.state in {"left", "removed"}}
        for one in known:
            one.state = "left" if one.email in left and one.state != "removed" else one.state
            one.previous = None
        self.readers, self.waiting = known, []
        self.waiting.append((end, self.resume_mail))

    def resume_mail(self) -> None:
        self.service.run("deliveries", "resume")


def titles(chance: random.Random) -> Iterator[str]:
    """Yield titles, each once, all with one or two words that readers look for."""
    seen: set[str] = set()
    while True:
        words = [word.title() for word in chance.sample(TOPICS, chance.choice([1, 1, 1, 2]))]
        title = f"{chance.choice(QUALITIES)} {' and '.join(words)} in {chance.choice(QUALITIES)} {chance.choice(PLACES)}"
        if title not in seen:
            seen.add(title)
            yield title


def record(title: str, words: frozenset[str]) -> dict[str, object]:
    """Return a paper as a list has it; the same title always has the same content."""
    chance = random.Random(title)
    text = [chance.choice(ABSTRACT_WORDS) for _ in range(60)]
    sentences = [" ".join(text[first : first + 15]).capitalize() + "." for first in range(0, 60, 15)]
    authors = [f"{chance.choice('ABCDEFG')}. {chance.choice(PLACES)[:-1]}" for _ in range(3)]
    number = chance.randrange(10**9)
    return {
        "title": title, "abstract": " ".join(sentences), "authors": list(dict.fromkeys(authors)),
        "url": f"https://papers.example/{number}", "upvotes": chance.randrange(60),
    }  # fmt: skip


def outages(chance: random.Random, begin: datetime, days: int) -> list[tuple[datetime, datetime, str]]:
    """Return when machines are off, or the worker alone."""
    found = []
    for share, hours, kind in (
        (0.12, 7, "off"), (0.25, 30, "off"), (0.37, 5, "no worker"), (0.45, 3, "off"), (0.52, 10, "no worker"),
        (0.58, 6, "no scheduler"),
        (0.75, 74, "off"), (0.9, 2, "off"),
    ):  # fmt: skip
        first = begin + timedelta(days=int(days * share), hours=chance.randrange(24))
        found.append((first, first + min(hours, days * 2) * HOUR, kind))
    return found


def at_start(day: date, zone: str) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def link(letter: Letter, purpose: str) -> str:
    """Return the path of a link in a letter."""
    text = letter.text + letter.content.decode(errors="replace").partition("\n\n")[0]
    found = re.search(rf"{re.escape(SITE)}(/{purpose}/[\w.-]+)", text)
    assert found, (letter.kind, letter.to, purpose, letter.text[-1500:])
    return found[1]


def sqlite_databases(folder: Path) -> Iterator[str]:
    """Yield URLs of new files."""
    for number in range(9):
        yield f"sqlite:///{folder / f'service-{number}.sqlite3'}"


def clean(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
