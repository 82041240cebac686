"""Define the table in which the rivals record each paper that a reader was shown, one row for each."""

from __future__ import annotations

from datetime import date

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from digest.db import BigKey


class RivalBase(DeclarativeBase):
    """The base class of the rivals' own tables."""


class Showing(RivalBase):
    """A paper that was included in a reader's digest."""

    __tablename__ = "rival_showing"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    delivery_id: Mapped[int] = mapped_column(BigKey)
    shown_on: Mapped[date]
