"""An SMTP server that takes everything, as fast as Python can: it counts, and keeps what it is asked to.

`python -m tests.bench.sink FOLDER` prints its port. It writes a message to FOLDER/RECIPIENT where the
recipient's name starts with `kept`, and on every `STAT` it answers how many messages it has taken.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END = b"\r\n.\r\n"
GREETING = b"220 sink\r\n"
ABILITIES = b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 0\r\n"


class Sink(asyncio.Protocol):
    """One connection: lines, until DATA; then a body, until the dot."""

    taken = 0
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

    def command(self) -> bytes | None:
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
                return b"250 %d\r\n" % Sink.taken
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
        return b"250 taken\r\n"


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def open_sink(folder: Path) -> Iterator[int]:
    """Run a sink in a process of its own and yield its port."""
    command = [sys.executable, "-m", "tests.bench.sink", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def taken(port: int) -> int:
    """Return how many messages the sink has taken."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        answers.readline()
        connection.sendall(b"STAT\r\n")
        return int(answers.readline().split()[1])


if __name__ == "__main__":
    Sink.folder = Path(sys.argv[1])
    asyncio.run(serve())
