"""Suppressions: addresses we must not write to, known only by a keyed hash."""

from dataclasses import replace

from sqlalchemy import text

from digest import bounces
from digest.bounces import Reason


def test_a_suppressed_address_is_suppressed_however_it_is_spelled(session, site, now):
    bounces.suppress(session, site, "Charlie@Uni.EDU", Reason.COMPLAINT, "via the abuse desk", now)

    asked = ["charlie@uni.edu", "CHARLIE@UNI.EDU", "alice@uni.edu"]
    assert bounces.suppressed(session, site, asked) == {"charlie@uni.edu", "CHARLIE@UNI.EDU"}


def test_the_first_reason_stands(session, site, now):
    assert bounces.suppress(session, site, "charlie@uni.edu", Reason.COMPLAINT, "", now)
    assert not bounces.suppress(session, site, "charlie@uni.edu", Reason.BOUNCE, "later", now)

    [line] = bounces.listing(session)
    assert (line.reason, line.note, line.since) == (Reason.COMPLAINT, "", now)


def test_a_lifted_address_may_be_written_to_again(session, site, now):
    bounces.suppress(session, site, "charlie@uni.edu", Reason.OPERATOR, "", now)

    assert bounces.lift(session, site, "Charlie@uni.edu")
    assert not bounces.lift(session, site, "Charlie@uni.edu")
    assert not bounces.is_suppressed(session, site, "charlie@uni.edu")


def test_the_list_holds_no_address_and_only_the_pepper_can_ask_it(session, site, now):
    bounces.suppress(session, site, "charlie@uni.edu", Reason.OPERATOR, "", now)

    stored = str(session.execute(text("SELECT * FROM suppression")).all())
    assert "charlie" not in stored
    assert not bounces.is_suppressed(session, replace(site, pepper=b"another"), "charlie@uni.edu")


def test_thousands_are_looked_up_at_once(session, site, now):
    crowd = [f"reader{number}@uni.edu" for number in range(1200)]
    for email in (crowd[0], crowd[700], crowd[1199]):
        bounces.suppress(session, site, email, Reason.BOUNCE, "", now)

    assert bounces.suppressed(session, site, crowd) == {crowd[0], crowd[700], crowd[1199]}
