"""Load a page from another program, such as a browser, a mail program or a clipboard tool."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from digest.dumps.formats import mail_page
from digest.dumps.intake.dumps_folder import free_name, move_aside, record_moved_path
from digest.dumps.intake.load_dump import load
from digest.dumps.intake.load_report import LoadResult
from digest.errors import UsageError

CAPTURES_FOLDER = "captures"  #: subfolder of the dumps folder that contains captures until they are loaded
MAX_BYTES = 64 * 1024**2


def capture(
    session: Session,
    folder: Path,
    content: bytes,
    *,
    now: datetime,
    url: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> LoadResult:
    """Store a page in the dumps folder, load it like any other dump, and commit.

    `url` is the address of the page, to which its links are relative. A dry run keeps no file. Raises
    UsageError if there is no content, or more than MAX_BYTES.
    """
    if not content.strip():
        raise UsageError("Standard input is empty. Pass a page: digest intake - < page.html")
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"Standard input has more than {MAX_BYTES // 1024**2} MiB; save it as a file instead."
        )
    page = mail_page.page_in_mail(content)
    captures = folder / CAPTURES_FOLDER
    captures.mkdir(parents=True, exist_ok=True)
    path = free_name(
        captures, f"capture-{now:%Y%m%dT%H%M%SZ}{'.html' if mail_page.is_html(page) else '.txt'}"
    )
    path.write_bytes(mail_page.with_address(page, url) if url and mail_page.is_html(page) else page)
    loaded = load(session, path, now=now, dry_run=dry_run, **options)
    if dry_run or loaded.is_known:
        path.unlink()
    else:
        record_moved_path(session, loaded, move_aside(folder, loaded))
    return loaded
