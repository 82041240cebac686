"""Parse clauses whose value is a range or a bound: of dates and of the numbers of signals."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from datetime import date, timedelta

from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import DateClause, SignalClause

_DAY = r"(?:\d{4}(?:-\d{2}(?:-\d{2})?)?|\d{6}(?:\d{2}(?:\d{4})?)?)"
_ONE = re.compile(rf"(>=|<=|>|<|=)?({_DAY})")
_RANGE = re.compile(rf"({_DAY})?(?:\.\.|-(?=\d{{4}}$))({_DAY})?")
_ARXIV_RANGE = re.compile(rf"\[({_DAY})\s+TO\s+({_DAY})\]")
_EXAMPLE = "date:2024-01..2024-06"
_FIGURE = r"\d{1,9}(?:\.\d{1,3})?k?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?({_FIGURE})", re.IGNORECASE)
_BETWEEN = re.compile(rf"({_FIGURE})\.\.({_FIGURE})", re.IGNORECASE)


def published(value: str) -> DateClause:
    """Return the clause for `date:`, which matches papers published in a range of days."""
    plain = value.strip()
    one, several = _ONE.fullmatch(plain), _ARXIV_RANGE.fullmatch(plain) or _RANGE.fullmatch(plain)
    if one:
        since, until = _bounds(one[1] or "=", *_days(one[2]))
    elif several and (several[1] or several[2]):
        since = _days(several[1])[0] if several[1] else date.min
        until = _days(several[2])[1] if several[2] else date.max
    else:
        raise ClauseError("A date is written 2024, 2024-05 or 2024-05-31", suggestion=_EXAMPLE)
    if since > until:
        raise ClauseError("This range of days ends before it begins", suggestion=f"date:{until}..{since}")
    return DateClause(since, until, f"date:{_span(since, until)}")


def _days(written: str) -> tuple[date, date]:
    """Return the first and the last day of a year, a month or a day."""
    digits = written.replace("-", "")[:8]
    year, month, day = int(digits[:4]), int(digits[4:6] or 0), int(digits[6:8] or 0)
    try:
        first = date(year, month or 1, day or 1)
    except ValueError as error:
        raise ClauseError(f"There is no day {written}", suggestion=_EXAMPLE) from error
    if day:
        return first, first
    return first, date(year, month or 12, monthrange(year, month or 12)[1])


def _bounds(operator: str, first: date, last: date) -> tuple[date, date]:
    if (operator == "<" and first == date.min) or (operator == ">" and last == date.max):
        raise ClauseError(f"Dates are between {date.min} and {date.max}", suggestion=_EXAMPLE)
    return {
        "=": lambda: (first, last),
        ">=": lambda: (first, date.max),
        ">": lambda: (last + timedelta(days=1), date.max),
        "<=": lambda: (date.min, last),
        "<": lambda: (date.min, first - timedelta(days=1)),
    }[operator]()


def _span(since: date, until: date) -> str:  # noqa: PLR0911  (one return for each form of a range)
    if since == date.min and until == date.max:
        return f"{since}..{until}"
    if until == date.max:
        return f">={since}"
    if since == date.min:
        return f"<={until}"
    if since == until:
        return f"{since}"
    for short in (f"{since:%Y}".zfill(4), f"{since:%Y-%m}".zfill(7)):
        if _days(short) == (since, until):
            return short
    return f"{since}..{until}"


def signal(name: str, value: str) -> SignalClause:
    """Return the clause that limits a signal, such as `upvotes:`, to values within bounds."""
    plain = value.strip()
    bound, between = _BOUND.fullmatch(plain), _BETWEEN.fullmatch(plain)
    if between:
        low, high = _figure(between[1]), _figure(between[2])
    elif bound:
        low, high = _interval(bound[1] or "=", _figure(bound[2]))
    else:
        raise ClauseError("Add a number or a bound here", suggestion=f"{name}:>=20")
    if low > high:
        raise ClauseError("No number is within these bounds", suggestion=f"{name}:>=20")
    return SignalClause(name, low, high, f"{name}:{_figures_shown(low, high)}")


def _figure(written: str) -> float:
    thousands = written[-1] in "kK"
    return round(float(written.rstrip("kK")) * (1000 if thousands else 1), 3)


def _interval(operator: str, figure: float) -> tuple[float, float]:
    """Return the lowest and highest matching numbers; signals are whole numbers, so > 19 means >= 20."""
    above = int(figure) + 1
    below = math.ceil(figure) - 1
    return {
        "=": (figure, figure),
        ">=": (figure, math.inf),
        ">": (above, math.inf),
        "<=": (0, figure),
        "<": (0, below),
    }[operator]


def _figures_shown(low: float, high: float) -> str:
    if low == high:
        return _shown(low)
    if high == math.inf:
        return f">={_shown(low)}"
    return f"<={_shown(high)}" if low == 0 else f"{_shown(low)}..{_shown(high)}"


def _shown(figure: float) -> str:
    return f"{figure:.3f}".rstrip("0").rstrip(".")
