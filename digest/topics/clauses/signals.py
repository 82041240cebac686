"""Parse signal clauses: a number, a range or a bound."""

from __future__ import annotations

import math
import re

from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import SignalClause

_FIGURE = r"\d{1,9}(?:\.\d{1,3})?k?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?({_FIGURE})", re.IGNORECASE)
_BETWEEN = re.compile(rf"({_FIGURE})\.\.({_FIGURE})", re.IGNORECASE)


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
    return SignalClause(name, low, high, f"{name}:{_bounds_shown(low, high)}")


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


def _bounds_shown(low: float, high: float) -> str:
    if low == high:
        return _shown(low)
    if high == math.inf:
        return f">={_shown(low)}"
    return f"<={_shown(high)}" if low == 0 else f"{_shown(low)}..{_shown(high)}"


def _shown(figure: float) -> str:
    return f"{figure:.3f}".rstrip("0").rstrip(".")
