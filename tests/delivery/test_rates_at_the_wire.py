"""Claims about rates as a mail server sees them: real workers, a real scheduler, PostgreSQL and Redis.

`make bench ARGS=rates` measures two minutes of each; here it is some seconds, and ratios only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.rates import RateCase, measure, used, worst

pytestmark = [pytest.mark.slow, pytest.mark.promise, pytest.mark.whole]

SECONDS, SPAN = 20.0, 10.0


@pytest.mark.parametrize("case", [RateCase(rate="20/s", workers=2), RateCase(rate="14/s", profile="ses")])
def test_workers_use_their_rate_and_no_span_sees_much_more(
    postgres_url: str, redis_url: str, tmp_path: Path, case: RateCase
) -> None:
    moments = measure(case, postgres_url, redis_url, tmp_path / "data", seconds=SECONDS)

    slack = 1 if case.profile else 3
    assert used(moments, case.per_second, SECONDS) >= 0.9
    assert worst(moments, SPAN) <= case.per_second * (SPAN + slack)
