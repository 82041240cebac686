"""Every form of every page takes any value of any field: a sentence beside the field, never an error or a lost value."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import cycle, product
from urllib.parse import quote_plus, urlencode

import pytest
from sqlalchemy import select
from starlette.routing import Route
from starlette.testclient import TestClient

from digest.db import kept_pages
from digest.db.tables.deliveries import Delivery
from digest.db.tables.dumps import DumpRow
from digest.db.tables.service_state import KeptPage
from digest.db.tables.subscribers import Subscriber
from digest.papers.catalog import match_or_add_records, queries
from digest.papers.paper_record import Record
from digest.site import links
from digest.subscribers import saved_papers, subscriber_rows, unsubscribe_and_undo
from digest.web import middleware
from digest.web.app import ROUTES
from tests.web.conftest import ServedSite, path_of

NO_FORM = {"/sns"}  #: a mail provider posts JSON here
NO_PAGE = NO_FORM | {"/preview"}  #: our script fetches a part of a page here
POST_PATHS = sorted(
    {route.path for route in ROUTES if isinstance(route, Route) and "POST" in (route.methods or ())} - NO_FORM
)
MEGABYTE = 2**20
BAD_VALUES = {
    "empty": b"",
    "1 MB": b"x" * MEGABYTE,
    "NULs": b"a\0b\0",
    "half a surrogate pair": b"\xed\xa0\x80",
    "no UTF-8": bytes(range(128, 256)),
    "UTF-16": "é€ß".encode("utf-16"),
    "right to left": "\u202e\u2066".encode(),
    "markup": b'"><script>alert(1)</script>{{7*191}}',
    "line breaks": b"a\r\nBcc: x@example.org\r\n",
    "digits": b"9" * 5000,
    "parentheses": b"(" * 1900,
}


BRIEFLY = (
    "empty",
    "digits",
    "no UTF-8",
)  #: one of them in turn for a field in which nobody types, or that the button does not use
TYPED = {"text", "email", "number", "time", "date"}  #: the types of fields in which somebody types


@dataclass(kw_only=True)
class PageForm:
    """A form of a page, as a browser sends it."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)  #: the values as the page has them
    typed: dict[str, int] = field(default_factory=dict)  #: fields to type in, with the most characters
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return every name that the form sends."""
        return list(dict.fromkeys(name for name, _ in [*self.fields, *self.buttons]))


class FormParser(HTMLParser):
    """Collect the forms of a page."""

    def __init__(self, page: str, path: str) -> None:
        super().__init__()
        self.path = path
        self.forms: list[PageForm] = []
        self.is_open = False
        self.typing = ""  #: the name of the text area whose content follows
        self.select = ""
        self.is_option = False  #: whether the text that follows is the chosen value of the select
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.is_open = given.get("method") == "post"
            if self.is_open:
                self.forms.append(PageForm(action=given.get("action") or self.path))
        elif self.is_open:
            self.add_field(tag, given)

    def add_field(self, tag: str, given: dict[str, str]) -> None:
        form, name = self.forms[-1], given.get("name", "")
        if tag == "select":
            self.select = name
            form.fields.append((name, ""))
        elif tag == "textarea":
            self.typing = name
            form.typed[name] = int(given.get("maxlength", "0"))
        elif tag == "button" and name:
            form.buttons.append((name, given.get("value", "")))
        elif tag == "input" and name and given.get("type") != "file":
            if given.get("type") not in {"radio", "checkbox"} or "checked" in given:
                form.fields.append((name, given.get("value", "")))
            if given.get("type", "text") in TYPED and name != "website":
                form.typed[name] = int(given.get("maxlength", "0"))
        elif tag == "option" and "selected" in given:
            form.fields[-1] = (self.select, given.get("value", ""))
            self.is_option = "value" not in given

    def handle_data(self, data: str) -> None:
        if self.is_option:
            self.forms[-1].fields[-1] = (self.select, data)
            self.is_option = False
        if self.typing:
            self.forms[-1].fields.append((self.typing, data))
            self.typing = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self.typing:
            self.handle_data("")
        if tag == "form":
            self.is_open = False


@pytest.fixture
def snapshot(served: ServedSite) -> Callable[[], None]:
    """Return a function that brings the database back to its present content."""
    kept = sqlite3.connect(":memory:")
    served.context.engine.dispose()
    name = str(served.context.engine.url.database)
    with closing(sqlite3.connect(name)) as now:
        now.backup(kept)

    def restore() -> None:
        served.context.engine.dispose()
        with closing(sqlite3.connect(name)) as now:
            kept.backup(now)

    return restore


@pytest.fixture
def pages(
    served: ServedSite, papers: list[int], digest_sent: Delivery, dora: Subscriber, alice: Subscriber
) -> dict[str, list[str]]:
    """Return the addresses of the pages whose forms post to each route, for a reader with topics and saved papers."""
    served.sign_up("bob@uni.edu", filter="robot*", cadence="weekdays")
    confirmation = links.confirm_url(served.site, 1)
    reader = dora.id, dora.link_version
    records = [Record(title=f"Quiet tomography of knees {n}", abstract="We scan.") for n in range(4)]
    with served.writing() as session:
        match_or_add_records.add(session, records, dump=session.query(DumpRow).one())
        knee = queries.find(session, records[0].title).id
        for paper in papers[:4]:
            saved_papers.save(session, dora.id, paper, now=served.clock.now)
        gone = subscriber_rows.add(session, "gone@uni.edu", consent="asked", now=served.clock.now)
        unsubscribe_and_undo.unsubscribe(session, served.site, gone, now=served.clock.now)
        session.commit()
        left = gone.id, gone.link_version
    made_at = int(served.clock.now.timestamp())
    manage, topic_links = links.manage_url(served.site, *reader), links.topic_links_url(served.site, *reader)
    start = links.feedback_url(served.site, *reader)
    found = {
        "/": ["/"],
        "/preview": ["/"],
        "/link": ["/m/0123456789ab.1-0.cut", "/u/cut"],
        "/c/{token}": [confirmation],
        "/u/{token}": [links.unsubscribe_url(served.site, *reader), links.unsubscribe_url(served.site, *left)],
        "/m/{token}": [manage, links.manage_url(served.site, *left)],
        "/m/{token}/saved": [f"{manage}/saved"],
        "/s/{token}/{number:id}": [
            links.save_url(served.site, *reader, papers[5]),
            links.save_url(served.site, *reader, papers[0]) + "?done=saved",
        ],
        "/d/{token}": [links.account_url(served.site, *reader, made_at)],
        "/e/{token}": [links.new_address_url(served.site, *reader, "new@uni.edu", made_at)],
        "/t/{token}": [topic_links],
        "/l/{token}/{number:id}": [links.less_url(start, knee)],
        "/l/{token}/{number:id}/more": [links.more_url(links.feedback_url(served.site, alice.id, alice.link_version), papers[0])],
    }  # fmt: skip
    return {route: [path_of(url) for url in urls] for route, urls in found.items()}


def forms_of(served: ServedSite, pages: list[str], route: str) -> Iterator[tuple[str, PageForm]]:
    """Yield the forms on these pages that post to a route, each with its page."""
    for page in pages:
        for form in FormParser(served.client.get(page).text, page.partition("?")[0]).forms:
            yield page, as_previewed(form) if route == "/preview" else form


def as_previewed(form: PageForm) -> PageForm:
    """Return the sign-up form as our script sends it for a preview, which uses only the filter among the typed fields."""
    return replace(form, action="/preview", typed={"filter": form.typed["filter"]}, buttons=[])


def test_every_route_that_takes_a_form_has_a_page_with_the_form(served, pages):
    assert sorted(pages) == POST_PATHS
    for route, urls in pages.items():
        assert list(forms_of(served, urls, route)), route


def test_every_form_is_answered_with_a_redirect_to_a_page_that_can_be_reloaded(served, pages, snapshot):
    served.clock.now += timedelta(seconds=5)
    walked = set()
    for route in sorted({*POST_PATHS} - NO_PAGE):
        unknown = re.sub(r"\{number:id\}", "1", route).replace("{token}", "x")
        requests = [(unknown, {}), (unknown, {"filter": "x" * middleware.MAX_UPLOAD})]
        for page, form in forms_of(served, pages[route], route):
            for button in form.buttons or [("", "")]:
                requests += [
                    (form.action or page, filled(form) | dict([button])),
                    (form.action, dict([button])),
                ]
        for path, fields in requests:
            posted = TestClient.post(served.client, path, data=fields)
            assert posted.status_code == 303, (path, fields)
            location = posted.headers["location"]
            assert location.partition("?")[0] == path
            before = served.everything()
            first, second = served.client.get(location), served.client.get(location)
            assert (first.status_code, first.text) == (second.status_code, second.text)
            assert first.status_code in {200, 404, 410, 413, 422, 429}, (path, first.status_code)
            assert served.everything() == before
            walked.add(route)
            snapshot()
    assert walked == {*POST_PATHS} - NO_PAGE


def test_the_answer_to_a_form_is_kept_for_minutes_for_those_who_have_its_address(served, alice):
    path = path_of(links.manage_url(served.site, alice.id, alice.link_version))
    plain = served.client.get(path).text
    posted = TestClient.post(
        served.client, path, data={"do": "add", "filter": "heliotrope AND (", "name": "Blue"}
    )
    location = posted.headers["location"]
    query = location.partition("?")[2]

    assert "heliotrope AND (" in served.client.get(location).text
    assert served.client.get(f"/?{query}").text.count("heliotrope") == 0  # another page
    assert served.client.get(f"{path}?answer=x").text == plain
    with served.writing() as session:
        [kept] = session.scalars(select(KeptPage))
    assert b"heliotrope" not in kept.content
    with pytest.raises(zlib.error):
        zlib.decompress(kept.content)

    served.clock.now += timedelta(minutes=15)
    assert served.client.get(location).text == plain
    TestClient.post(served.client, path, data={"do": "add", "filter": ""})
    with served.writing() as session:
        assert session.scalars(select(KeptPage.id)).one() != kept.id


def test_the_forms_of_one_network_delete_no_answers_of_another(served, monkeypatch):
    monkeypatch.setattr(kept_pages, "MAX_KEPT_FOR_NETWORK", 3)
    attacker, visitor, unknown = (
        TestClient(
            served.client.app, base_url="http://testserver", client=(address, 50_000), follow_redirects=False
        )
        for address in ("198.51.100.7", "203.0.113.9", "127.0.0.1")
    )

    def post(client: TestClient) -> str:
        served.clock.now += timedelta(seconds=1)
        return client.post("/link", data={"email": "no address"}).headers["location"]

    def is_kept(location: str) -> bool:
        return str(served.client.get(location).text) != str(served.client.get("/link").text)

    answer, local = post(visitor), [post(unknown) for _ in range(4)]
    floods = [post(attacker) for _ in range(5)]

    assert is_kept(answer)
    assert all(
        map(is_kept, local)
    )  # behind a proxy that is not counted, all visitors seem to be this machine
    assert [is_kept(one) for one in floods] == [False, False, True, True, True]


def test_a_bad_value_gets_a_sentence_and_loses_no_other_value(served, pages, snapshot):
    served.clock.now += timedelta(seconds=5)  # no person fills in a form faster
    briefly = cycle(BRIEFLY)
    for route in POST_PATHS:
        for page, form in forms_of(served, pages[route], route):
            buttons = form.buttons or [("", "")]
            for button, name in product(buttons, form.names()):
                is_typed = name in form.typed and is_used(button, name)
                once = [next(briefly)] if button is buttons[0] or name == button[0] else []
                for kind in BAD_VALUES if is_typed else once:
                    where = f"{kind} as {name} with button {button} on {page}"
                    if check_answer(served, form, button, name, BAD_VALUES[kind], where=where) != 422:
                        snapshot()


def check_answer(
    served: ServedSite, form: PageForm, button: tuple[str, str], name: str, value: bytes, *, where: str
) -> int:
    """Send a form with one bad value, check the answer, and return its status."""
    fields = filled(form)
    sent = {one: said.encode() for one, said in [*fields.items(), button] if one} | {name: value}
    answer = served.client.post(
        form.action,
        content="&".join(f"{quote_plus(one)}={quote_plus(said)}" for one, said in sent.items()),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    is_sent = answer.status_code == 303  # else the client opened the page with the answer
    assert is_sent or answer.history or form.action == "/preview", where
    if is_sent:
        answer = served.client.get(answer.headers["location"])
        assert answer.status_code == 200, where
    assert answer.status_code in {200, 410, 422}, where
    assert "<script>alert" not in answer.text, where
    assert "1337" not in answer.text, where  # 7*191: the value was not taken for a template
    assert len(answer.content) < 150_000, where
    is_too_long = 0 < form.typed.get(name, 0) < len(value) and is_used(button, name)
    if is_too_long:
        assert (answer.status_code, 'class="error"' in answer.text) != (200, False), where
    if answer.status_code == 422:
        assert 'class="error"' in answer.text, where
        text = FormParser(answer.text, form.action)
        shown = [said for one in text.forms for _, said in one.fields]
        for one in form.typed.keys() - {name}:
            assert fields[one] in shown, (where, one)
    return answer.status_code


#: The buttons that use a field; a button that is not named uses all fields of its form.
USES = {
    "rename": {"name"}, "filter": {"filter"}, "try": {"filter"}, "add": {"name", "filter"}, "reason": {"words"},
    "address": {"email"}, "sample": {"filter"},
}  # fmt: skip


def is_used(button: tuple[str, str], name: str) -> bool:
    """Return whether a button uses a field that somebody types in."""
    return button[0] != "do" or name in USES.get(button[1], {name})


def filled(form: PageForm) -> dict[str, str]:
    """Return the fields of a form with something typed in each empty one."""
    typed = {"email": "ada@uni.edu", "filter": "robot* AND arm", "words": "I retire", "name": "Arms"}
    given = dict(form.fields)
    if "on" in given:
        given["on"] = "topics"  # else the page hides the topics, and their fields do not count
    return given | {name: given.get(name) or typed.get(name, "") for name in form.typed}


CHARSETS = ("utf-8", "utf-7", "utf-16", "unicode_escape", "latin-1", "rot13", "none")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a codec that the client names
def test_a_form_in_any_charset_gets_a_page(served, pages, snapshot):
    for route in POST_PATHS:
        charsets = CHARSETS if route == "/" else ("utf-16", "none")  # one function reads all forms
        for page, form in forms_of(served, pages[route], route):
            odd = {name: bytes(range(256)) for name in form.names()}
            bodies = {
                "application/x-www-form-urlencoded": urlencode(odd).encode(),
                "multipart/form-data; boundary=x": multipart(odd),
            }
            for charset, (kind, body) in product(charsets, bodies.items()):
                answer = served.client.post(
                    form.action, content=body, headers={"content-type": f"{kind}; charset={charset}"}
                )

                assert answer.status_code in {200, 303, 410, 422}, (page, kind, charset)
                snapshot()


def multipart(fields: dict[str, bytes]) -> bytes:
    """Return the body of a form."""
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    return b"".join(parts) + b"--x--\r\n"


def test_a_form_over_the_limit_gets_a_page_that_leads_back_to_it(served, pages):
    for route in POST_PATHS:
        has_own_page = route not in {"/", "/preview", "/link"}
        path = pages[route][0].partition("?")[0] if has_own_page else route
        most = middleware.MAX_UPLOAD if path in middleware.UPLOAD_PATHS else middleware.MAX_BYTES

        answer = served.client.post(path, data={"filter": "x" * most})

        assert answer.status_code == 413, route
        assert "Nothing was changed. Shorten your text and send the form again." in answer.text
        back = re.findall(r'class="button[^"]*" href="([^"]*)"', answer.text)
        assert back == ([path, "/"] if has_own_page else ["/"])
        assert served.client.get(back[0]).status_code == 200, route
