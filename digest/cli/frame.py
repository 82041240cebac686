"""The frame of every command: open what it needs, let it work, commit, and print its result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from digest.cli import command_context, error_sentences
from digest.cli.options import AsJson
from digest.cli.results import CommandResult

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.db import Session
    from digest.site.site_profile import Site

#: The parameters of a command that the frame fills in or reads.
WORK, AS_JSON, CALLED = "work", "as_json", "called"


@dataclass(frozen=True)
class Opened:
    """What a command works with that opens its sessions itself, because it asks before it writes."""

    context: AppContext

    @property
    def operator(self) -> str:
        """Return the account of the person who runs this command, also under `sudo`."""
        return command_context.operator_name()

    @property
    def site(self) -> Site:
        """Return the site."""
        return self.context.site

    def reading(self) -> AbstractContextManager[Session]:
        """Open a session that only reads."""
        return self.context.read_session()

    def writing(self, *, renders: bool = False) -> AbstractContextManager[Session]:
        """Open a unit of work; `renders` as in `open_write_session`."""
        return command_context.open_write_session(self.context, renders=renders)


@dataclass(frozen=True)
class Workspace(Opened):
    """What a command works with: the app context, and a session that the frame has opened."""

    session: Session


Opener = Callable[[], AbstractContextManager[Any]]


@contextmanager
def opened(*, makes_service: bool = False) -> Iterator[Opened]:
    """Open the app context."""
    with command_context.open_context(makes_service=makes_service) as context:
        yield Opened(context)


@contextmanager
def reading() -> Iterator[Workspace]:
    """Open the app context, and a session that only reads."""
    with command_context.open_context() as context, context.read_session() as session:
        yield Workspace(context, session)


@contextmanager
def writing(*, makes_service: bool = False) -> Iterator[Workspace]:
    """Open the app context and a unit of work."""
    with (
        command_context.open_context(makes_service=makes_service) as context,
        command_context.open_write_session(context) as session,
    ):
        yield Workspace(context, session)


def command(
    opener: Opener = nullcontext, app: typer.Typer | None = None, name: str | None = None
) -> Callable[[Callable[..., CommandResult]], Callable[..., None]]:
    """Make a command of a function that returns a result, and add it to a group.

    Its parameter `work`, if it has one, is what `opener` opens. What it wrote is committed before the result is
    printed. A result may read from a session that only reads while it is printed. Every command takes `--json`;
    a function has the parameter `as_json` only if it does something else then, and `called` (Typer's context) only
    if it is a group, which does nothing itself if one of its commands is named.
    """

    def frame(function: Callable[..., CommandResult]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        options = [parameter for name, parameter in signature.parameters.items() if name != WORK]
        if AS_JSON not in signature.parameters:
            kind = inspect.Parameter.KEYWORD_ONLY
            options.append(inspect.Parameter(AS_JSON, kind, default=False, annotation=AsJson))

        @functools.wraps(function)
        def run(**given: Any) -> None:
            if CALLED in given and given[CALLED].invoked_subcommand:
                return
            as_json = given[AS_JSON] if AS_JSON in signature.parameters else given.pop(AS_JSON)
            with ExitStack() as stack:
                work = stack.enter_context(opener())
                result = function(**given, **({WORK: work} if WORK in signature.parameters else {}))
                if opener is not reading:
                    stack.close()
                result.show(as_json=as_json)
            if result.stop:
                raise error_sentences.Stopped(result.stop)
            if result.code:
                raise typer.Exit(result.code)

        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in options}
        return app.command(name)(run) if app else run

    return frame


def with_options(
    into: str, options: Mapping[str, Any]
) -> Callable[[Callable[..., CommandResult]], Callable[..., CommandResult]]:
    """Give a command an option for each annotation; it gets those that were given as the mapping `into`."""

    def extend(function: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
        signature, kind = inspect.signature(function, eval_str=True), inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, kind, default=None, annotation=one) for name, one in options.items()]

        @functools.wraps(function)
        def run(**given: Any) -> CommandResult:
            chosen = {name: given.pop(name) for name in options}
            return function(**given, **{into: {name: one for name, one in chosen.items() if one is not None}})

        others = [parameter for name, parameter in signature.parameters.items() if name != into]
        run.__signature__ = signature.replace(parameters=[*others, *added])  # type: ignore[attr-defined]
        return run

    return extend
