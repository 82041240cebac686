"""Leave out the commands that the arguments do not name, because building all commands takes time."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import typer.main
from typer.models import CommandInfo, TyperInfo

WITH_VALUE = "--data-dir"  #: the only global option that takes a value


def narrow(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return the app with only the command or group in these arguments, or the whole app if there is none."""
    return with_only(app, without_options(arguments))


def without_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments without the global options before the command."""
    if arguments[:1] == [WITH_VALUE]:
        return without_options(arguments[2:])
    return without_options(arguments[1:]) if arguments and arguments[0].startswith("-") else arguments


def with_only(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return the app with only the command or group in the first word, or the whole app if there is none."""
    commands = [one for one in app.registered_commands if words and name_of(one) == words[0]]
    groups = [one for one in app.registered_groups if words and one.name == words[0]]
    if not (commands or groups):
        return app
    narrowed = copy(app)
    narrowed.registered_commands = commands
    narrowed.registered_groups = [group_with_only(one, words[1:]) for one in groups]
    return narrowed


def group_with_only(group: TyperInfo, words: Sequence[str]) -> TyperInfo:
    """Return the group with only the command that the first word names, or else with all commands."""
    narrowed = copy(group)
    if group.typer_instance is not None:
        narrowed.typer_instance = with_only(group.typer_instance, words)
    return narrowed


def name_of(command: CommandInfo) -> str:
    """Return the name by which a command is called on the command line."""
    return command.name or typer.main.get_command_name(getattr(command.callback, "__name__", ""))
