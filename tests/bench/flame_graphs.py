"""Draw where a worker's processor time goes: `python -m tests.bench.flame_graphs` writes docs/pictures/flame-*.svg.

One process publishes, and one delivers, the digests of a world of 20,000 readers on PostgreSQL to a sink in
C. py-spy samples their stacks; install it with pip, or give its path in `PY_SPY`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from digest import db
from tests.bench import celery_mornings, sink
from tests.bench.world import World
from tests.conftest import connected, fresh_database
from tests.support.product_processes import ROOT
from tests.support.real_servers import postgres

PY_SPY = os.environ.get("PY_SPY") or shutil.which("py-spy") or ""
RATE = 100  #: samples per second
STEPS = ("publish", "deliver")
NO_BROKER = "redis://127.0.0.1:1/0"  #: an address without a broker, which these commands do not need
READERS, FILTERS = 20_000, 10_000


def main() -> int:
    if not PY_SPY:
        print("py-spy is not installed: pip install py-spy", file=sys.stderr)
        return 1
    world = World(readers=READERS, topics=(1, 10), filters=FILTERS, kept=0, now=datetime.now(UTC), at="00:00")
    with (
        postgres("synchronous_commit=on") as server,
        fresh_database(server, template="template0") as url,
        tempfile.TemporaryDirectory() as folder,
        sink.fastest(Path(folder)) as taker,
    ):
        with connected(url) as engine:
            db.upgrade(engine)
            world.build(engine)
        for step in STEPS:
            draw(step, celery_mornings.service_settings(url, NO_BROKER, taker.port), Path(folder))
    return 0


def draw(step: str, settings: dict[str, str], folder: Path) -> None:
    """Run one command of the product under the profiler, and draw its stacks."""
    picture = ROOT / "docs" / "pictures" / f"flame-{step}.svg"
    options = ["--rate", str(RATE), "--function", "--output", str(picture)]
    command = [
        PY_SPY,
        "record",
        *options,
        "--",
        sys.executable,
        "-m",
        "digest",
        "--data-dir",
        str(folder),
        step,
    ]
    environment = {f"DIGEST_{name}": value for name, value in settings.items()}
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environment})
    picture.write_text(picture.read_text().replace(" ".join(command), f"digest {step}"))  # as its title


if __name__ == "__main__":
    sys.exit(main())
