"""Make the report on the service for `digest status`, `digest doctor`, /readyz, /metrics and alarms.

A check that raises an error is itself reported as a problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from digest import db
from digest.errors import DigestError
from digest.monitoring import probes
from digest.monitoring.check_results import Check, Problem, outage, passed, run_check
from digest.monitoring.figures import Figures, count_figures
from digest.monitoring.probes import Disk
from digest.monitoring.problems import find_problems
from digest.monitoring.supervisor import Supervisor, find_supervisor
from digest.settings import Settings, mask_url


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The state of the service at one time: checks with their problems, figures and disks."""

    now: datetime
    checks: tuple[Check, ...]
    figures: Figures | None  #: None if the database cannot be used
    disks: tuple[Disk, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of all checks."""
        return tuple(problem for check in self.checks for problem in check.problems)

    @property
    def is_well(self) -> bool:
        """Return whether no check found a failure or an outage."""
        return not any(problem.is_failure for problem in self.problems)


def make_report(settings: Settings, engine: Engine, now: datetime, *, logs_in: bool = False) -> Report:
    """Check the service; with `logs_in`, also check the TLS and passwords of the mail servers."""
    supervisor = find_supervisor(settings.data_dir)
    figures, database = check_database(engine, supervisor, now)
    disks = probes.writable_disks(settings)
    checks = (
        *database,
        probes.check_broker(settings, supervisor, is_used=not (figures and figures.done_by_runs)),
        *probes.check_mail(settings.mail, supervisor, logs_in=logs_in),
        probes.check_data(settings, disks),
    )
    return Report(now=now, checks=checks, figures=figures, disks=disks)


def report_from_settings(settings: Settings, now: datetime, *, thorough: bool = False) -> Report:
    """Make the report over a new connection; in an empty data directory, create keys and database first.

    A thorough report also checks the setup (files, address, proxies, headers and DNS), which takes seconds.
    """
    engine = db.make_engine(settings.database)
    access: Iterable[Check] = ()
    if thorough:
        from digest.monitoring import setup_checks

        setup = [*setup_checks.check_machine(settings)]
        access = setup_checks.check_access(settings, engine, now)
    else:
        setup = [*run_check("secrets", lambda: check_keys(settings))]
    try:
        with suppress(DigestError, SQLAlchemyError, OSError):
            db.ensure_schema(engine)
        report = make_report(settings, engine, now, logs_in=thorough)
        return replace(report, checks=(*setup, *report.checks, *access))
    finally:
        engine.dispose()


def check_keys(settings: Settings) -> Iterable[Check]:
    """Check that the keys can be read; create keys in an empty data directory."""
    settings.site()
    return ()


def check_database(
    engine: Engine, supervisor: Supervisor, now: datetime
) -> tuple[Figures | None, Iterable[Check]]:
    """Return the figures and the checks of the database; the figures are None if the database is unusable."""
    url = engine.url.render_as_string(hide_password=False)
    file = db.database_file(url)
    where = str(file or mask_url(url))
    fix = "Free its disk, and give it and its folder to the user who runs digest."
    if file is None:
        fix = f"{supervisor.start_server('postgresql')}, free its disk, or correct DIGEST_DATABASE_URL."
    try:
        if (found := db.revision(engine)) != (needed := db.newest_revision()):
            fact = f"it is at {found} and this code needs {needed}"
            message = "The database has another schema: digest db upgrade"
            problem = Problem(cause="schema", message=message, fix="Run: digest db upgrade", facts=(fact,))
            return None, [Check(subject="database", problems=(problem,))]
        with db.read_session(engine) as session:
            figures = count_figures(session, now=now)
            problems = tuple(find_problems(session, now=now, figures=figures, supervisor=supervisor))
    except (DigestError, SQLAlchemyError, OSError) as error:
        cause = error.__cause__ or error
        reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
        fix = f"Nothing is stored or sent until it works. {fix}"
        return None, [outage("database", "The database cannot be used", fix, reason, where)]
    return figures, [
        passed("database", f"{where}, schema up to date"),
        Check(subject="service", problems=problems),
    ]


def schema_revision(engine: Engine) -> str | None:
    """Return the revision of the schema; None if the database is empty or cannot be used."""
    try:
        return db.revision(engine)
    except (DigestError, SQLAlchemyError, OSError):
        return None
