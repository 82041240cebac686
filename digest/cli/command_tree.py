"""The tree of commands: where each is defined, its help with examples, and hints for words that are no command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

from digest.errors import UsageError

#: {panel of `digest --help`: {command or group: the place where it is defined}}; a place is a module and a name.
PANELS = {
    "Service": {
        "up": "processes.up", "init": "init.init", "web": "processes.web", "worker": "processes.worker",
        "scheduler": "processes.scheduler", "inbound": "processes.inbound", "keys": "keys.app", "db": "database.app",
        "backup": "database.backup", "restore": "database.restore",
    },
    "Papers": {
        "intake": "dumps.intake", "dumps": "dumps.app", "sources": "dumps.sources", "papers": "papers.papers",
        "hide": "papers.hide", "topics": "topics.app",
    },
    "Subscribers": {"subscribers": "subscribers.app", "suppressions": "incoming_mail.suppressions"},
    "Mail": {
        "preview": "publishing.preview", "publish": "publishing.publish", "deliver": "publishing.deliver",
        "run": "publishing.run", "deliveries": "deliveries.app", "why": "deliveries.why", "bounces": "incoming_mail.app",
        "inbox": "incoming_mail.inbox", "dkim": "keys.dkim",
    },
    "Monitoring": {"status": "status.status", "doctor": "status.doctor", "config": "status.config"},
}  # fmt: skip
PLACES = {name: (panel, place) for panel, places in PANELS.items() for name, place in places.items()}

#: Words that people try, and the command that they look for.
HINTS = {
    "help": "Every command has --help; digest --help lists them.",
    "logs": "Every process logs to stderr. Under systemd: journalctl -u 'digest@*'. What is wrong: digest doctor.",
    "rm": "To unsubscribe somebody: digest subscribers remove EMAIL. To erase all their data: digest subscribers erase EMAIL.",
}
HINTS["delete"] = HINTS["rm"]


class CommandGroup(typer.core.TyperGroup):
    """A group that answers some unknown words with a hint."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name; raise UsageError with a hint for a word of HINTS."""
        if args[0] in HINTS and self.get_command(ctx, args[0]) is None:
            raise UsageError(f"{args[0]!r} is not a command. {HINTS[args[0]]}")
        return super().resolve_command(ctx, args)


class RootGroup(CommandGroup):
    """All commands; each is built when it is named, because importing and building all of them takes time."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands and groups, in the order of the help, and build them."""
        del ctx
        self.commands.update({name: build(name) for name in PLACES if name not in self.commands})
        return [*PLACES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command or group, or None if there is none of this name."""
        if cmd_name not in PLACES:
            self.list_commands(ctx)  # for the suggestions of similar names
        elif cmd_name not in self.commands:
            self.commands[cmd_name] = build(cmd_name)
        return self.commands.get(cmd_name)


def build(name: str) -> Any:
    """Import and build a command or group."""
    panel, place = PLACES[name]
    module, _, attribute = place.partition(".")
    found = getattr(import_module(f"digest.cli.{module}"), attribute)
    parent = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    parent.callback()(lambda: None)
    return complete_help(typer.main.get_group(parent).commands[name])


def group(help_text: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True, cls=CommandGroup)


def complete_help(command: Any) -> Any:
    """Move the examples of a docstring to the end of the help, and remove uninformative type names."""
    command.help, _, examples = (command.help or "").partition("\n\nExamples:\n")
    if examples:
        command.epilog = "\n".join(
            ("Examples:", *(f"$ {line.strip()}" for line in examples.splitlines() if line.strip()))
        )
    for param in command.params:
        show_plainly(param)
    get_help_option = command.get_help_option
    command.get_help_option = lambda context: show_plainly(get_help_option(context))
    for below in getattr(command, "commands", {}).values():
        complete_help(below)
    return command


def show_plainly(param: Any) -> Any:
    """Make the help show a flag without a type, and an argument by its name alone."""
    if param.param_type_name == "argument":
        usage = param.display_name_raw + ("" if param.nargs == 1 else "...")
        param.get_usage_pieces = lambda _context: [usage if param.required else f"[{usage}]"]
    if param.param_type_name == "argument" or param.is_flag:
        param.display_type_rich = lambda **_: None
    return param
