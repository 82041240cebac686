"""Logs are lines: for people, or for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime

import pytest

from digest import logs

log = logging.getLogger("digest.delivery")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_for_people_a_line_says_when_where_and_what(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("text")

    log.info("delivered %s", 7)

    assert capfd.readouterr().err.endswith(" I digest.delivery: delivered 7\n")


def test_for_machines_every_line_is_an_object_even_with_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs.set_up("json")

    try:
        raise RuntimeError("broken\npipe")
    except RuntimeError:
        log.exception("delivery %s failed", 7)

    (line,) = capfd.readouterr().err.splitlines()
    told = json.loads(line)
    assert datetime.fromisoformat(told.pop("at")).tzinfo is not None
    assert "RuntimeError: broken" in told.pop("error")
    assert told == {"level": "error", "logger": "digest.delivery", "event": "delivery 7 failed"}


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_names_an_address(capfd: pytest.CaptureFixture[str], log_format: str) -> None:
    logs.set_up(log_format)

    log.warning(
        "550 5.1.1 <ada.l+x@uni.example>: user unknown; rcpt=%s, smtp://me:secret@host", "Ada@uni.example"
    )
    try:
        raise ValueError("[parameters: ('ada@uni.example',)]")
    except ValueError:
        log.exception("delivery 7")

    told = capfd.readouterr().err
    assert "ada" not in told.lower()
    assert "me:secret" not in told
    assert "delivery 7" in told
    assert "<…@uni.example>" in told


@pytest.mark.parametrize(
    "email",
    [
        "ada@uni.example",
        "o'ada@uni.example",
        "ada/x=y@uni.example",
        "{ada}@uni.example",
        '"ada b"@uni.example',
        "ådä.ada@üni.example",
    ],
)
@pytest.mark.parametrize(
    "line", ["{}", "<{}>", "rcpt={}", "('{}', 7)", "[{}]", "mailto:{}", "{!r}", "user {}: no"]
)
def test_no_part_of_an_address_is_left(email: str, line: str) -> None:
    assert "ada" not in logs.without_addresses(line.format(email))


def test_what_is_chatty_is_kept_down(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("text")

    logging.getLogger("kombu").info("connected")

    assert capfd.readouterr().err == ""
