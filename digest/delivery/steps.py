"""Define the steps of a window on its way to the mail server, each as a value.

The state of a conversation with the server is its step. Several conversations can therefore run at once, each
with its own worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from digest.delivery.limits import Wait
from digest.delivery.message_rendering import RenderContext, RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery
from digest.delivery.settlement import SentWindow

#: A delivery and its rendered letter; None if the letter cannot be rendered or has no address.
Letter = tuple[ClaimedDelivery, RenderedDelivery | None]


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Letters that we hold under one lease and have not processed, and the previous window, if unsettled."""

    deliveries: Sequence[ClaimedDelivery] = ()
    context: RenderContext  #: the data loaded for rendering
    is_loaded: bool = False  #: whether `context` is loaded for these letters
    leased_at: float = 0.0  #: the monotonic time when our lease began
    checked_at: datetime  #: when we last checked for urgent letters
    rendered: Mapping[int, RenderedDelivery | None] = field(default_factory=dict)  #: letters rendered ahead
    waits: Mapping[int, Wait] = field(default_factory=dict)  #: letters that wait for tokens
    unsettled: SentWindow | None = None  #: the previous window, which is settled with the next intent
    is_disconnected: bool = False  #: no server responded, so the other letters wait
    done: int = 0  #: number of letters that this run has processed


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A window of rendered letters."""

    claimed: Claimed  #: all letters that we hold, including this window
    window: Sequence[Letter]
    intended: Mapping[int, RenderedDelivery] | None = (
        None  #: letters whose intent is committed; None if no intent was tried
    )


@dataclass(frozen=True, kw_only=True)
class Intended:
    """The letters of a window that may be sent; the intent is committed."""

    letters: Mapping[int, RenderedDelivery]
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A window with its outcomes so far, and the error that ended sending, if any."""

    window: SentWindow
    error: BaseException | None
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The outcomes of a window are recorded, or will be together with the next intent."""

    rest: Claimed


Step = Claimed | Rendered | Intended | Sent | Settled


def held_at(step: Step) -> Claimed:
    """Return the letters that a worker holds at this step, with the outcomes it must still record."""
    match step:
        case Claimed():
            return step
        case Rendered():
            return step.claimed
        case Sent():
            return replace(step.rest, unsettled=step.window)
        case Intended() | Settled():
            return step.rest
