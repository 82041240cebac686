"""The steps of a window on its way to the mail server, each a value.

A conversation with the server has reached the step that it holds, and remembers nothing else. So several
conversations can run at once, each with its own worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from digest.delivery.limits import Wait
from digest.delivery.message_rendering import RenderContext, RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery
from digest.delivery.settlement import SentWindow

#: A letter as rendered; None if it cannot be rendered or has no address.
Letter = tuple[ClaimedDelivery, RenderedDelivery | None]


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Letters that we hold under one lease and have not begun, and what is left to record before them."""

    deliveries: Sequence[ClaimedDelivery] = ()
    context: RenderContext  #: what is loaded to render them
    is_loaded: bool = False  #: whether it is loaded for these letters
    leased_at: float = 0.0  #: the monotonic moment when our lease began
    checked_at: datetime  #: when we last checked for urgent letters
    rendered: Mapping[int, RenderedDelivery | None] = field(default_factory=dict)  #: letters rendered ahead
    waits: Mapping[int, Wait] = field(default_factory=dict)  #: letters that wait for tokens
    unsettled: SentWindow | None = None  #: the window before, to be settled with the next intent
    is_disconnected: bool = False  #: no server responded, so the rest waits
    done: int = 0  #: letters of this run that were begun


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A window of letters, rendered."""

    claimed: Claimed  #: all that we hold, these included
    window: Sequence[Letter]
    intended: Mapping[int, RenderedDelivery] | None = None  #: those intended already; None: none was tried


@dataclass(frozen=True, kw_only=True)
class Intended:
    """The letters of a window that may be sent; the intent is committed."""

    letters: Mapping[int, RenderedDelivery]
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A window with its outcomes so far, and the error that ended its sending, if one did."""

    window: SentWindow
    error: BaseException | None
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The outcomes of a window are recorded, or will be together with the next intent."""

    rest: Claimed


Step = Claimed | Rendered | Intended | Sent | Settled


def held_at(step: Step) -> Claimed:
    """Return what a worker that ends at this step holds and has to record."""
    match step:
        case Claimed():
            return step
        case Rendered():
            return step.claimed
        case Sent():
            return replace(step.rest, unsettled=step.window)
        case Intended() | Settled():
            return step.rest
