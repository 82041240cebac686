"""Walk through an operator's first day in a terminal, and keep every screen: `make first-day`.

The commands run in tmux, so each screen is what a person sees: wrapped lines, prompts, tables and errors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from digest.process import heartbeats
from tests.support.product_processes import ROOT
from tests.support.real_servers import free_port
from tests.support.waiting import pause, wait_until

PAGE = ROOT / "docs" / "first-day.md"
WIDTH, HEIGHT = 100, 50
PROMPT = "$"
FOLDER = "~/papers"  #: what the page shows instead of the temporary folder
INTRODUCTION = """# The first day

This page shows an operator's first day, screen by screen. `make first-day` runs these commands in a terminal of
100 columns and writes this page, so every screen is real. The papers and people are invented.
"""
MEMBERS = """\
email,name,cadence,at,timezone,state,topics
ada@example.org,Ada,daily,07:30,Europe/Oslo,active,Pictures=diffusion OR video
bob@example.org,Bob,weekly-fri,08:00,UTC,active,Language=LLM*
cleo@example.org,Cleo,daily,08:00,UTC,pending,Tides=tide*
dora@example,Dora,daily,08:00,UTC,active,Pictures=diffusion
emil@example.org,Emil,hourly,08:00,UTC,active,Pictures=diffusion
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of the day: its heading, a sentence, and the lines that are typed.

    A pair is a prompt and the answer to it. After the last line, the step waits for the prompt of the shell, or
    for `until`.
    """

    heading: str
    text: str
    typed: Sequence[str | tuple[str, str]]
    until: str = ""
    window: str = "day"


DAY = (
    Step(
        heading="Setting up",
        text="`digest init` asks eight questions; Enter accepts a default. If an answer is invalid, the reason is shown and the question is asked again.",
        typed=(
            "digest init",
            ("Name of the site", "Lab Papers"),
            ("Public address", "papers.example.org"),
            ("Public address", ""),
            ("keep mail on this machine", ""),
            ("Sender of the letters", "Lab Papers <papers@example.org>"),
            ("Postal address", "Example Lab, 1 Example Street, Oslo"),
            ("Who may sign up", "example.org"),
            ("in the data directory", ""),
            ("for a test mail", "ada@example.org"),
            ("Start", "n"),
        ),
    ),
    Step(
        heading="Starting the service",
        text="One command starts all processes. It runs in this terminal until you press Ctrl-C.",
        typed=("digest up",),
        until="Ctrl-C\n",
        window="service",
    ),
    Step(
        heading="Loading a list of papers",
        text="`--dry-run --show` prints the papers as Digest reads them, and loads nothing.",
        typed=("digest intake today.txt --dry-run --show 2", "digest intake today.txt"),
    ),
    Step(
        heading="Trying a filter",
        text="`check` marks a mistake. `test` prints the matching papers, each with the reason.",
        typed=(
            "digest topics check 'diffusion AND (light OR video'",
            "digest topics test 'diffusion AND (light OR video)'",
        ),
    ),
    Step(
        heading="Importing people",
        text="`--dry-run` reports each bad row with its line number. The import loads the good rows and reports the bad ones again. The sample reader is removed when you set a mail server.",
        typed=(
            "digest subscribers import people.csv --consent 'asked in the seminar' --dry-run",
            "digest subscribers import people.csv --consent 'asked in the seminar'",
            "digest subscribers list",
        ),
    ),
    Step(
        heading="Synchronizing with a list that others maintain",
        text="The file decides who is a member. The plan is shown before anything changes.",
        typed=("digest subscribers sync members.csv --consent 'members of the lab' --dry-run",),
    ),
    Step(
        heading="Seeing a digest before it is sent",
        text="A preview is the digest exactly as it would be sent. Previewing sends and records nothing.",
        typed=("digest preview ada@example.org --out preview",),
    ),
    Step(
        heading="Sending",
        text="The running service sends each digest at its hour. `digest run` does all due work at once.",
        typed=("digest run", "digest deliveries"),
    ),
    Step(
        heading="Asking why",
        text="Why did Ada not get this paper? Why does Cleo get no mail? What has happened so far?",
        typed=(
            "digest why ada@example.org 'Tide Tables for Gradient Descent'",
            "digest why cleo@example.org",
            "digest subscribers show cleo@example.org --history",
        ),
    ),
    Step(
        heading="Checking the service",
        text="`digest status` shows the state of the service; `digest doctor` also checks the setup and suggests fixes.",
        typed=("digest status", "digest doctor"),
    ),
    Step(
        heading="Reading the week",
        text="Each line is one kind of event, with a bar for each day. The report can also be mailed every Monday.",
        typed=("digest status --since 7d", "digest topics stats"),
    ),
    Step(
        heading="Backing up",
        text="The backup is one file, written while the service runs.",
        typed=("digest backup digest.backup",),
    ),
    Step(
        heading="Erasing a person",
        text="A destructive command states what it will do, and asks first.",
        typed=(
            "digest subscribers erase bob@example.org",
            ("Continue", "n"),
            "digest subscribers erase bob@example.org --suppress",
            ("Continue", "y"),
        ),
    ),
    Step(
        heading="Stopping the service",
        text="Ctrl-C stops all processes. Waiting letters are sent after the next start.",
        typed=("C-c",),
        window="service",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """A tmux server with one window for each name, whose screens can be read."""

    socket: str
    folder: Path
    environment: dict[str, str]
    windows: set[str] = field(default_factory=set)

    def tmux(self, *arguments: str) -> str:
        """Run a tmux command and return its output."""
        return subprocess.run(
            ["tmux", "-u", "-L", self.socket, "-f", "/dev/null", *arguments],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def open_window(self, name: str) -> None:
        """Open a shell in a new window; in an open window, clear the screen unless a command is running."""
        if name in self.windows:
            if self.screen(name).endswith(PROMPT):
                self.tmux("send-keys", "-t", name, "C-l")
                time.sleep(0.5)
            return
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        self.tmux("new-session", "-d", "-s", name, *size, "env PS1='$ ' bash --norc --noprofile")
        self.windows.add(name)
        self.wait_for(name, PROMPT)

    def screen(self, name: str) -> str:
        """Return the text on the screen, without empty lines at its end."""
        return self.tmux("capture-pane", "-p", "-t", name).rstrip()

    def press(self, name: str, text: str) -> None:
        """Type a line and press Enter, or press a key such as C-c."""
        if re.fullmatch(r"C-\w", text):
            self.tmux("send-keys", "-t", name, text)
            return
        self.tmux("send-keys", "-t", name, "-l", text)
        self.tmux("send-keys", "-t", name, "Enter")

    def wait_for(self, name: str, text: str) -> None:
        """Wait until the last line is the shell's prompt, or until the screen contains another text."""

        def has_appeared() -> bool:
            screen = self.screen(name)
            return screen.splitlines()[-1:] == [PROMPT] if text == PROMPT else text in f"{screen}\n"

        pause(0.1, "the shell reads what was typed")
        wait_until(repr(text), has_appeared)


@contextmanager
def open_terminal(folder: Path) -> Iterator[Terminal]:
    """Yield a terminal in this folder, and end its tmux server afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DIGEST_", "TMUX"))}
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
    own = {
        "TERM": "screen-256color",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "DIGEST_LISTEN": f"127.0.0.1:{free_port()}",
    }
    environment = kept | own | {"PATH": path}
    terminal = Terminal(socket=f"first-day-{os.getpid()}", folder=folder, environment=environment)
    try:
        yield terminal
    finally:
        terminal.tmux("kill-server")


def walk(terminal: Terminal) -> Iterator[tuple[Step, str]]:
    """Do each step of the day, and yield it with its screen."""
    for step in DAY:
        terminal.open_window(step.window)
        for typed in step.typed:
            if isinstance(typed, tuple):
                wait_for_question(terminal, step.window, typed[0])
                terminal.press(step.window, typed[1])
            else:
                if typed != step.typed[0]:
                    terminal.wait_for(step.window, PROMPT)
                terminal.press(step.window, typed)
        terminal.wait_for(step.window, step.until or PROMPT)
        yield step, terminal.screen(step.window)


def wait_for_question(terminal: Terminal, window: str, question: str) -> None:
    """Wait until the cursor stands after this question."""

    def is_asked() -> bool:
        line = terminal.screen(window).splitlines()[-1]
        return line.endswith(":") and question in line

    wait_until(repr(question), is_asked)


def page(screens: Iterator[tuple[Step, str]], folder: Path, port: str) -> str:
    """Return the page with these screens, without the names of this machine and its folders."""
    names = {
        str(folder): FOLDER,
        heartbeats.machine_name(): "papers",
        f":{port}": ":8000",
        str(ROOT): "~/digest",
    }
    parts = [INTRODUCTION]
    for step, screen in screens:
        shown = reduce(lambda text, name: text.replace(name, names[name]), names, screen)
        lines = "\n".join(line.rstrip() for line in shown.removesuffix(f"\n{PROMPT}").splitlines())
        parts.append(f"## {step.heading}\n\n{step.text}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    if shutil.which("tmux") is None:
        raise SystemExit("The first day takes tmux: apt-get install tmux")
    with tempfile.TemporaryDirectory(prefix="papers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copy(ROOT / "docs" / "examples" / "today.txt", folder)
        (folder / "people.csv").write_text(MEMBERS)
        (folder / "members.csv").write_text(
            "email,topics\nada@example.org,Pictures=video\nfay@example.org,Tides=tide*\n"
        )
        with open_terminal(folder) as terminal:
            written = page(walk(terminal), folder, terminal.environment["DIGEST_LISTEN"].partition(":")[2])
    PAGE.write_text(written, encoding="utf-8")
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
