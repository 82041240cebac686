"""Take screenshots of letters in a real Thunderbird on a virtual screen."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

SCREEN = "800x1000"
#: A profile without a mailbox that reaches no network, asks nothing and shows no first-run page.
PREFERENCES: Mapping[str, str | int | bool] = {
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "mail.provider.suppress_dialog_on_startup": True,
    "mail.rights.version": 1,
    "mail.shell.checkDefaultClient": False,
    "mail.spotlight.firstRunDone": True,
    "mailnews.database.global.indexer.enabled": False,
    "mailnews.start_page.enabled": False,
}


@dataclass(frozen=True, kw_only=True)
class Thunderbird:
    """The paths of the required programs."""

    thunderbird: str
    screen: str  #: Xvfb
    camera: str  #: ImageMagick's import
    counter: str  #: ImageMagick's convert

    def photograph(self, letter: Path, picture: Path, *, is_dark: bool = False) -> Path:
        """Take a picture of the window in which a letter is open."""
        with (
            tempfile.TemporaryDirectory(prefix="digest-thunderbird-", ignore_cleanup_errors=True) as folder,
            self.lit(Path(folder)) as display,
        ):
            profile = Path(folder) / "profile"
            profile.mkdir()
            wishes = {**PREFERENCES, "ui.systemUsesDarkTheme": int(is_dark)}
            (profile / "user.js").write_text("".join(map(preference, wishes.items())))
            surroundings = os.environ | {"DISPLAY": display, "HOME": folder, "MOZ_NO_REMOTE": "1"}
            command = [self.thunderbird, "--profile", str(profile), "--no-remote", "-file", str(letter)]
            with running(command, surroundings):
                self.wait(picture, surroundings)
        return picture

    def wait(self, picture: Path, surroundings: Mapping[str, str]) -> None:
        """Take screenshots until two in a row, seconds apart, are equal."""
        seen: list[Counter[str]] = [Counter()]

        def is_still() -> bool:
            time.sleep(2)
            command = [self.camera, "-window", "root", str(picture)]
            subprocess.run(command, env=surroundings, timeout=30, check=True)
            seen.append(self.colours(picture))
            return len(seen[-1]) > 50 and seen[-1] == seen[-2]  # more than an empty window has

        wait_until("Thunderbird", is_still)

    def colours(self, picture: Path) -> Counter[str]:
        """Return how many pixels of a picture have each colour, as `#RRGGBB`."""
        command = [
            self.counter,
            str(picture),
            "-alpha",
            "off",
            "-depth",
            "8",
            "-format",
            "%c",
            "histogram:info:-",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = re.findall(r"(\d+):.*?(#[0-9A-F]{6})", done.stdout)
        return Counter({colour: int(count) for count, colour in found})

    @contextmanager
    def lit(self, folder: Path) -> Iterator[str]:
        """Run a virtual screen and yield its name."""
        reader, writer = os.pipe()
        command = [self.screen, "-displayfd", str(writer), "-screen", "0", f"{SCREEN}x24", "-nolisten", "tcp"]
        with (folder / "screen.log").open("wb") as log:
            process = subprocess.Popen(command, pass_fds=(writer,), stdout=log, stderr=log)
        os.close(writer)
        try:
            with os.fdopen(reader) as told:
                yield f":{told.readline().strip()}"
        finally:
            process.terminate()
            process.wait()


def preference(wish: tuple[str, str | int | bool]) -> str:
    """Return a line of a profile's user.js."""
    name, value = wish
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return f'user_pref("{name}", {shown});\n'


@contextmanager
def running(command: list[str], surroundings: Mapping[str, str]) -> Iterator[None]:
    """Run a program as long as it is needed."""
    with subprocess.Popen(
        command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()
