"""Define the steps of sending a window, each as a value.

The current step is the whole state of a conversation with the mail server. Several workers can therefore
hold conversations at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from digest.delivery.limits.decisions import Wait
from digest.delivery.message_rendering import RenderContext, RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery
from digest.delivery.settlement import SentWindow

#: A delivery and its rendered letter; None if the letter cannot be rendered or has no address.
Letter = tuple[ClaimedDelivery, RenderedDelivery | None]


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """The unprocessed letters that we hold under one lease, and the previous window if not yet settled."""

    deliveries: Sequence[ClaimedDelivery] = ()
    context: RenderContext  #: the data loaded for rendering
    is_loaded: bool = False  #: whether `context` is loaded for these letters
    leased_at: float = 0.0  #: the monotonic time when our lease began
    checked_at: datetime  #: when we last checked for urgent letters
    #: letters rendered while the database executed a statement
    rendered: Mapping[int, RenderedDelivery | None] = field(default_factory=dict)
    waits: Mapping[int, Wait] = field(default_factory=dict)  #: the waits for tokens, keyed by delivery id
    unsettled: SentWindow | None = None  #: the previous window, which is settled with the next intent
    is_disconnected: bool = False  #: whether no server responded, so that the other letters wait
    done: int = 0  #: number of letters that this run has processed


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A window of rendered letters."""

    claimed: Claimed  #: all letters that this worker has claimed, including this window
    window: Sequence[Letter]
    #: letters whose intent is committed; None before the first commit
    intended: Mapping[int, RenderedDelivery] | None = None


@dataclass(frozen=True, kw_only=True)
class Intended:
    """The letters of a window that may be sent, after the commit of their intents."""

    letters: Mapping[int, RenderedDelivery]
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A window after sending: its outcomes, and the error that ended sending, if any."""

    window: SentWindow
    error: BaseException | None
    rest: Claimed


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A window whose outcomes are recorded, or will be recorded with the next intent."""

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
