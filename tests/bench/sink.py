"""SMTP servers that accept everything: one in C for timing, one in Python that stores letters.

`fastsink.c` is compiled if there is a C compiler, and is no bottleneck. `python -m tests.bench.sink FOLDER`
prints its port, and writes a message to FOLDER/RECIPIENT if the recipient's name starts with `kept`. Both
reply to `STAT` with the numbers of accepted messages and bytes.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

END = b"\r\n.\r\n"
GREETING = b"220 sink\r\n"
ABILITIES = b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 0\r\n"


class Sink(asyncio.Protocol):
    """A connection that reads lines up to DATA, and then a body up to the final dot."""

    taken = accepted_bytes = 0
    folder = Path()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = bytearray()
        self.recipient = ""
        self.is_body = False
        self.searched = 0
        transport.write(GREETING)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        answers = b""
        while (answer := self.body() if self.is_body else self.command()) is not None:
            answers += answer
        if answers:
            self.transport.write(answers)  # type: ignore[attr-defined]

    def command(self) -> bytes | None:  # noqa: PLR0911  (one return for each command)
        end = self.buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        match line[:4].upper():
            case b"EHLO":
                return ABILITIES
            case b"RCPT":
                self.recipient = line.partition(b"<")[2].partition(b">")[0].decode()
                return b"250 ok\r\n"
            case b"DATA":
                self.is_body, self.searched = True, 0
                return b"354 go\r\n"
            case b"STAT":
                return b"250 %d %d\r\n" % (Sink.taken, Sink.accepted_bytes)
            case b"QUIT":
                self.transport.close()
                return None
            case _:
                return b"250 ok\r\n"

    def body(self) -> bytes | None:
        end = self.buffer.find(END, max(0, self.searched - len(END)))
        if end < 0:
            self.searched = len(self.buffer)
            return None
        if self.recipient.startswith("kept"):
            content = bytes(self.buffer[: end + 2]).replace(b"\r\n..", b"\r\n.")
            (Sink.folder / self.recipient).write_bytes(content)
        del self.buffer[: end + len(END)]
        self.is_body = False
        Sink.taken += 1
        Sink.accepted_bytes += end + len(b"\r\n")
        return b"250 taken\r\n"


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# ── running one ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RunningSink:
    """A sink in its own process."""

    port: int
    pid: int
    language: str

    def accepted_count(self) -> int:
        """Return how many messages the sink has accepted."""
        return figures(self.port)[0]

    def accepted_bytes(self) -> int:
        """Return how many bytes of messages the sink has accepted."""
        return figures(self.port)[1]


@contextmanager
def fastest(folder: Path, delay: int = 0) -> Iterator[RunningSink]:
    """Run the fastest available sink; the sink in C delays each reply by `delay` ms and stores nothing."""
    if is_fast():
        with running([str(compiled_sink(folder)), str(delay)], "C") as sink:
            yield sink
    else:
        with keeping_sink(folder) as sink:
            yield sink


def is_fast() -> bool:
    """Return whether the fast sink can be built here."""
    return shutil.which("cc") is not None


@contextmanager
def keeping_sink(folder: Path) -> Iterator[RunningSink]:
    """Run the sink that stores the letters to recipients named `kept`."""
    with running([sys.executable, "-m", "tests.bench.sink", str(folder)], "Python") as sink:
        yield sink


@contextmanager
def running(command: Sequence[str], language: str) -> Iterator[RunningSink]:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield RunningSink(port=int(process.stdout.readline()), pid=process.pid, language=language)
        finally:
            process.terminate()


def compiled_sink(folder: Path) -> Path:
    """Return the program of the sink in C."""
    source, program = Path(__file__).with_name("fastsink.c"), folder / "fastsink"
    if not program.exists():
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


def figures(port: int) -> list[int]:
    """Return how many messages the sink has accepted, and their bytes."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        answers.readline()
        connection.sendall(b"STAT\r\n")
        return [int(figure) for figure in answers.readline().split()[1:]]


if __name__ == "__main__":
    Sink.folder = Path(sys.argv[1])
    asyncio.run(serve())
