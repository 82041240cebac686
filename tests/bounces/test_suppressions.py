"""Suppressed addresses are stored only as keyed hashes."""

from dataclasses import replace

from sqlalchemy import text

from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason


def test_suppressed_address_is_suppressed_in_any_spelling(session, site, now):
    suppressions.suppress(
        session, site, "Charlie@Uni.EDU", SuppressionReason.COMPLAINT, "via the abuse desk", now
    )

    asked = ["charlie@uni.edu", "CHARLIE@UNI.EDU", "alice@uni.edu"]
    assert suppressions.find_suppressed(session, site, asked) == {"charlie@uni.edu", "CHARLIE@UNI.EDU"}


def test_a_second_suppression_keeps_the_first_reason(session, site, now):
    assert suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.COMPLAINT, "", now)
    assert not suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.BOUNCE, "later", now)

    [line] = suppressions.list_suppressions(session)
    assert (line.reason, line.note, line.since) == (SuppressionReason.COMPLAINT, "", now)


def test_unsuppressed_address_gets_mail_again(session, site, now):
    suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.OPERATOR, "", now)

    assert suppressions.unsuppress(session, site, "Charlie@uni.edu", now=now)
    assert not suppressions.unsuppress(session, site, "Charlie@uni.edu", now=now)
    assert not suppressions.is_suppressed(session, site, "charlie@uni.edu")


def test_list_holds_no_address_and_needs_the_pepper(session, site, now):
    suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.OPERATOR, "", now)

    stored = str(session.execute(text("SELECT * FROM suppression")).all())
    assert "charlie" not in stored
    assert not suppressions.is_suppressed(session, replace(site, pepper=b"another"), "charlie@uni.edu")


def test_more_than_a_thousand_addresses_are_looked_up_in_one_call(session, site, now):
    crowd = [f"reader{number}@uni.edu" for number in range(1200)]
    for email in (crowd[0], crowd[700], crowd[1199]):
        suppressions.suppress(session, site, email, SuppressionReason.BOUNCE, "", now)

    assert suppressions.find_suppressed(session, site, crowd) == {crowd[0], crowd[700], crowd[1199]}
