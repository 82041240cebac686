"""Every letter but the digest is defined once, with what makes it the same letter."""

from __future__ import annotations

from datetime import date

from digest.delivery.outbox import planned_letters
from digest.delivery.outbox.planned_letters import AnswerLetter, GoodbyeLetter, PlannedLetter, ReminderLetter
from tests.conftest import ROOT

DAY = date(2026, 11, 20)


def test_every_template_of_a_letter_is_that_of_a_planned_letter_an_answer_or_the_digest() -> None:
    kinds = {
        letter.__dict__["kind"] for letter in PlannedLetter.__subclasses__() if letter is not AnswerLetter
    }
    templates = {path.name for path in (ROOT / "templates" / "letters").iterdir() if path.name[0] != "_"}

    assert kinds <= templates
    assert len(PlannedLetter.__subclasses__()) == len(
        [name for name in vars(planned_letters) if name.endswith("Letter") and name != "PlannedLetter"]
    )


def test_a_letter_is_the_same_by_its_identity_and_not_by_its_contents() -> None:
    first = GoodbyeLetter(subscriber_id=7, day=DAY)

    assert first.key == GoodbyeLetter(subscriber_id=7, day=DAY, contents={"until": "noon"}).key
    others = (
        GoodbyeLetter(subscriber_id=8, day=DAY),
        GoodbyeLetter(subscriber_id=7, day=date(2026, 11, 21)),
        ReminderLetter(subscriber_id=7),
    )
    assert len({first.key, *(other.key for other in others)}) == 4
    assert all(len(other.key) <= 120 for other in others)
