"""The other pages, and properties of every response."""

from __future__ import annotations

import email.message
import email.policy
import re
from datetime import timedelta
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from bibtexparser.entrypoint import parse_string
from starlette.routing import Route
from starlette.testclient import TestClient

from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import SubscriberState
from digest.delivery.transports.memory import MemoryTransport
from digest.site import links
from digest.subscribers import subscriber_rows
from digest.web import middleware
from digest.web.app import ROUTES
from tests.web.conftest import BASE, opened, path_of, publish_and_deliver, settings_for

# ── papers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_paper_has_a_page(served, papers):
    page = served.client.get(f"/papers/{papers[0]}").text

    assert "<h1>Slow Diffusion</h1>" in page
    assert "Ada Ito, Ben Okafor" in page
    assert 'href="https://arxiv.org/abs/2611.00001"' in page
    assert "90 upvotes" in page


def test_a_paper_without_links_says_where_to_find_it(served, papers):
    page = served.client.get(f"/papers/{papers[2]}").text

    assert "https://arxiv.org/search/?searchtype=title&amp;query=Quiet+Paper+3" in page
    assert "https://scholar.google.com/scholar?q=Quiet+Paper+3" in page


def test_a_machine_s_summary_is_labelled_on_the_page_of_a_paper_and_is_no_abstract_in_ris(served, papers):
    before = served.client.get(f"/papers/{papers[0]}.ris").text
    with served.writing() as session:
        session.get_one(PaperRow, papers[0]).summary_by = "Hugging Face"
        session.commit()

    assert "AB  - Diffusion models wait." in before
    assert "AI summary, Hugging Face: Diffusion" in served.client.get(f"/papers/{papers[0]}").text
    assert "AB  - " not in served.client.get(f"/papers/{papers[0]}.ris").text


def test_bibtex_survives_any_title(served, papers):
    for number in papers[:2]:
        answer = served.client.get(f"/papers/{number}.bib")

        assert answer.headers["content-type"].startswith("application/x-bibtex")
        library = parse_string(answer.text)
        assert (len(library.entries), library.failed_blocks) == (1, [])
    assert "author = {Ada Ito and Ben Okafor}" in served.client.get(f"/papers/{papers[0]}.bib").text


@pytest.mark.parametrize("number", ["0", "999", str(2**70)])
def test_an_unknown_paper_gives_404(served, papers, number):
    assert served.client.get(f"/papers/{number}").status_code == 404


@pytest.mark.parametrize(
    "path", [route.path for route in ROUTES if isinstance(route, Route) and ":id}" in route.path]
)
def test_a_number_of_thousands_of_digits_gives_404(served, papers, path):
    many = re.sub(r"\{\w+:id\}", "9" * 5000, path.replace("{token}", "x"))

    assert served.client.get(many).status_code == 404
    assert served.client.post(many, data={"do": "save"}).status_code == 404


# ── the outbox ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def mail(tmp_path: Path) -> str:
    """A mail in the Maildir; returns its key."""
    message = email.message.EmailMessage(policy=email.policy.SMTP)
    message["Subject"] = "Flow <b>matching</b>"
    message["To"] = "alice@uni.edu"
    message.set_content("The text part.")
    message.add_alternative(
        '<html><head></head><body><a href="/u/x">Leave</a><script>1</script></body></html>', "html"
    )
    for part in ("new", "cur", "tmp"):
        (tmp_path / "outbox" / part).mkdir(parents=True)
    (tmp_path / "outbox" / "new" / "1795.M1P1.host").write_bytes(bytes(message))
    (tmp_path / "outbox" / "new" / "link").symlink_to("/etc/passwd")
    return "1795.M1P1.host"


def test_the_outbox_lists_the_mails_of_the_local_maildir(served, mail):
    page = served.client.get("/outbox/").text

    assert "Flow &lt;b&gt;matching&lt;/b&gt;" in page
    assert "alice@uni.edu" in page
    assert page.count("<li>") == 1


def test_a_mail_is_shown_in_a_sandboxed_frame(served, mail):
    page = served.client.get(f"/outbox/{mail}")
    framed = served.client.get(f"/outbox/{mail}/html")

    assert "frame-src 'self'" in page.headers["content-security-policy"]
    assert f'src="/outbox/{mail}/html"' in page.text
    policy = framed.headers["content-security-policy"]
    assert "sandbox allow-top-navigation-by-user-activation" in policy
    assert "allow-scripts" not in policy
    assert "frame-ancestors 'self'" in policy
    assert '<base target="_top">' in framed.text


def test_a_mail_can_be_read_as_text_and_as_it_is(served, mail):
    assert "The text part." in served.client.get(f"/outbox/{mail}?as=text").text
    assert served.client.get(f"/outbox/{mail}/source").text.startswith("Subject: Flow")


#: Headers of proxies, load balancers, tunnels and content networks.
FORWARDING_HEADERS = (
    "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded", "Forwarded", "Forwarded-For",
    "Via", "X-Real-IP", "X-Client-IP", "Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "CF-Connecting-IP", "CDN-Loop",
    "Fly-Client-IP", "Fastly-Client-IP", "X-Azure-ClientIP", "X-Original-Forwarded-For", "X-Original-Host", "X-Original-URL",
    "X-Rewrite-URL", "X-ProxyUser-IP", "X-Envoy-External-Address",
)  # fmt: skip


def test_the_outbox_viewer_serves_no_forwarded_request(served, mail):
    assert served.client.get("/outbox/").status_code == 200
    for name in FORWARDING_HEADERS:
        for path in ("/outbox/", f"/outbox/{mail}", f"/outbox/{mail}/html", f"/outbox/{mail}/source"):
            assert served.client.get(path, headers={name: "localhost"}).status_code == 404, (name, path)
    two_hosts = [("host", "localhost"), ("host", "digest.example.org")]
    assert served.client.get("/outbox/", headers=two_hosts).status_code == 404

    app = served.client.app

    async def by_nginx(scope, receive, send):
        await app({**scope, "http_version": "1.0"}, receive, send)

    nginx = TestClient(by_nginx)
    assert nginx.get("/outbox/", headers={"host": "127.0.0.1:8000"}).status_code == 404


@pytest.mark.parametrize("key", ["link", "..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "none"])
def test_the_outbox_viewer_serves_only_mails(served, mail, key):
    assert served.client.get(f"/outbox/{key}/source").status_code == 404


@pytest.mark.parametrize(
    ("changed", "host"),
    [
        ({"mail_url": "smtp://mail.example.org"}, "127.0.0.1:8000"),
        ({"base_url": "https://digest.example.org"}, "127.0.0.1:8000"),
        ({}, "evil.example"),
        ({}, "127.evil.example"),
        ({}, ""),
    ],
    ids=[
        "mail goes out",
        "a public site",
        "another name for this machine",
        "a name like an address",
        "no name",
    ],
)
def test_the_outbox_viewer_serves_only_this_machine(sqlite_url, tmp_path, clock, mail, changed, host):
    settings = settings_for(sqlite_url, tmp_path, **({"base_url": "http://127.0.0.1:8000"} | changed))
    for served in opened(settings, clock):
        assert served.client.get("/outbox/", headers={"host": host}).status_code == 404


# ── every answer ────────────────────────────────────────────────────────────────────────────────

PATHS = [
    "/",
    "/privacy",
    "/outbox/",
    "/nowhere",
    "/healthz",
    "/static/site.css",
    "/c/x",
    "/u/x",
    "/m/x",
    "/papers/9",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_security_headers(served, path):
    headers = served.client.get(path).headers

    assert headers["content-security-policy"].startswith("default-src 'none'")
    for limit in ("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert limit in headers["content-security-policy"]
    assert "strict-transport-security" not in headers
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


def test_an_https_site_asks_browsers_to_use_https_only(sqlite_url, tmp_path, clock):
    for secure in opened(settings_for(sqlite_url, tmp_path, base_url="https://digest.example.org"), clock):
        for path in PATHS:
            assert secure.client.get(path).headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize(
    "path",
    ["/outbox/", *(route.path for route in ROUTES if isinstance(route, Route) and "{token}" in route.path)],
)
def test_pages_behind_signed_links_are_not_cached_or_indexed(served, path):
    filled = path.replace("{token}", "x").replace("{format:feed}", "atom").replace("{format:file}", "bib")
    headers = served.client.get(re.sub(r"\{\w+:id\}", "1", filled)).headers

    assert headers["cache-control"] == "no-store"
    assert "noindex" in headers["x-robots-tag"]


@pytest.mark.parametrize("path", ["/", "/preview", "/link", "/u/x"])
def test_responses_to_forms_are_not_stored(served, path):
    assert served.client.post(path, data={"email": "ada"}).headers["cache-control"] == "no-store"


def test_a_server_error_shows_our_page_with_security_headers(served, papers):
    served.context.engine.dispose()
    with served.context.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE signal")
    served.client._transport.raise_server_exceptions = False

    answer = served.client.get(f"/papers/{papers[0]}")

    assert answer.status_code == 500
    assert "Nothing was changed. Try again in a minute." in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("chunked", [False, True])
def test_an_oversized_request_body_is_refused(served, chunked):
    for path, most in (("/link", middleware.MAX_BYTES), ("/", middleware.MAX_UPLOAD)):
        body = b"email=" + b"a" * most
        sent = (body[start : start + 9999] for start in range(0, len(body), 9999)) if chunked else body

        answer = served.client.post(
            path, content=sent, headers={"content-type": "application/x-www-form-urlencoded"}
        )

        assert answer.status_code == 413


def test_file_uploads_are_refused_where_no_form_has_a_file(served):
    assert served.client.post("/link", files={"email": ("x.txt", b"x")}).status_code == 400


def test_the_log_has_no_signed_links(served, unsubscribe_path, caplog):
    caplog.set_level("DEBUG", logger="digest.web")

    served.client.get(unsubscribe_path)

    assert "GET /u/... 200" in caplog.text
    assert unsubscribe_path.removeprefix("/u/") not in caplog.text


def test_a_line_break_in_a_path_starts_no_line_in_the_log(served, caplog):
    caplog.set_level("DEBUG", logger="digest.web")

    served.client.get("/nowhere%0a2026-11-20 E digest: all mail is lost")
    served.client.get("/u/token%0a1/2")

    lines = [record.getMessage() for record in caplog.records if record.name == "digest.web"]
    assert [line.partition(" in ")[0] for line in lines] == [
        "GET /nowhere%0A2026-11-20%20E%20digest%3A%20all%20mail%20is%20lost 404",
        "GET /u/... 404",
    ]


def test_only_the_front_page_may_run_a_script_and_only_our_own(served, papers, manage_path):
    allowed = served.client.get("/").headers["content-security-policy"]

    assert "script-src 'self';" in allowed
    assert "unsafe" not in allowed
    for path in ("/privacy", manage_path, f"/papers/{papers[0]}", "/email", "/nowhere"):
        assert "script-src" not in served.client.get(path).headers["content-security-policy"]


def test_the_front_page_and_its_assets_are_small(served, papers):
    page = Page()
    page.feed(served.client.get("/").text)
    sizes = [
        len(served.client.get(path).content) for path in ("/", *{*page.loads} - {"/feed.atom", "/feed.json"})
    ]

    assert sum(sizes) < 60_000


@pytest.mark.parametrize(
    ("path", "headline"),
    [
        ("/papers/999", "Paper not found"),
        ("/feed/nobody/nothing.atom", "Feed not found"),
        ("/outbox/none", "Mail not found"),
        ("/nowhere", "Page not found"),
        ("/m/cut", "This link does not work"),
        ("/t/cut", "This link does not work"),
        ("/s/cut/1", "This link does not work"),
        ("/d/cut", "This link does not work"),
        ("/e/cut", "This link does not work"),
    ],
)
def test_a_page_that_is_not_found_says_what_was_sought(served, path, headline):
    answer = served.client.get(path)

    assert (answer.status_code, f"<h1>{headline}</h1>" in answer.text) == (404, True)
    assert ('action="/link"' in answer.text) == (headline == "This link does not work")


def test_successful_requests_are_not_logged_by_default(served, papers, caplog):
    caplog.set_level("INFO")

    for path in ("/", "/privacy", "/nowhere", "/static/site.css", "/healthz"):
        served.client.get(path)

    assert [record.message for record in caplog.records if record.name.startswith("digest")] == []


class Page(HTMLParser):
    """What a page loads, and where its fields are labelled."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.fields: list[str] = []
        self.labels: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if (
            (tag == "script" and "src" not in attributes)
            or tag == "style"
            or "style" in attributes
            or any(name.startswith("on") for name in attributes)
        ):
            self.inline.append(tag)
        if tag in {"link", "img", "script", "iframe"}:
            self.loads.append(attributes.get("href") or attributes.get("src") or "")
        if (
            tag in {"input", "select", "textarea"}
            and attributes.get("type") not in {"hidden", "checkbox", "radio"}  # these are inside their labels
            and attributes.get("name") != "website"
            and "aria-label" not in attributes
        ):
            self.fields.append(attributes.get("id") or "?")
        if tag == "label" and "for" in attributes:
            self.labels.append(attributes["for"] or "")


def test_pages_load_nothing_external_have_no_inline_scripts_and_label_every_field(
    served, papers, alice, manage_path, mail
):
    for path in ("/", manage_path, f"/papers/{papers[1]}", "/outbox/", f"/outbox/{mail}", "/privacy"):
        page = Page()
        page.feed(served.client.get(path).text)

        assert page.inline == [], path
        assert all(loaded.startswith("/") for loaded in page.loads), path
        assert {*page.fields} <= {*page.labels}, path


def test_the_colours_of_the_style_sheet_have_enough_contrast():
    css = (Path(__file__).parents[2] / "templates" / "web" / "static" / "site.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\n *\}", css, re.DOTALL)[:2]

    for block in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9A-F]{6})", block))
        for ink, ground, least in (
            ("ink", "page", 7), ("soft", "page", 4.5), ("accent", "page", 4.5), ("error", "page", 4.5),
            ("on-accent", "accent", 4.5), ("ink", "mark", 7), ("border", "page", 3), ("border", "paper", 3),
        ):  # fmt: skip
            assert contrast(colours[ink], colours[ground]) >= least, (ink, ground)


def contrast(one: str, other: str) -> float:
    """The WCAG contrast ratio of two colours."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# ── is it well ──────────────────────────────────────────────────────────────────────────────────


def test_live_and_ready_endpoints_report_their_state(served):
    assert served.client.get("/healthz").text == "ok\n"
    assert served.client.get("/readyz").text == "ok\n"

    with served.context.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    answer = served.client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "The database has another schema: digest db upgrade\n")


# ── markup ──────────────────────────────────────────────────────────────────────────────────────

HOSTILE = '"><img src=x onerror=alert(1)>'


def test_markup_in_titles_names_filters_and_files_is_escaped(served, papers, now):
    with served.writing() as session:
        mia = subscriber_rows.add(
            session, "mia@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now, topics={HOSTILE: "script"}
        )  # fmt: skip
        session.commit()
        publish_and_deliver(served, session, MemoryTransport(), now + timedelta(minutes=1))
    reader, number = (mia.id, mia.link_version), papers[1]
    start = links.feedback_url(served.site, *reader)
    save = path_of(links.save_url(served.site, *reader, number))
    served.client.post(save, data={"do": "save"})
    manage, view = (
        links.manage_url(served.site, *reader),
        links.view_url(served.site, *reader, "daily-2026-11-20"),
    )
    urls = [
        manage,
        f"{manage}/saved",
        f"{manage}/why?paper={number}",
        view,
        f"{view}/topics",
        f"{view}/1",
        "/",
        "/email",
    ]
    urls += [
        links.less_url(start, number),
        links.more_url(start, number),
        save,
        f"/days/{now.date()}",
        f"/papers/{number}",
    ]
    form = {"filter": f"script OR {HOSTILE}", "offered": f"{HOSTILE}\nscript", "topic": f"{HOSTILE}\nscript"}

    pages = [
        served.client.get(path_of(url), params={"filter": HOSTILE} if "/papers" in url else None)
        for url in urls
    ]
    pages += [served.client.post("/preview", data=form), served.client.post("/", data=form)]
    pages += [served.client.post("/preview", files={"library": (HOSTILE, b"@misc{x, title={<img src=x>}}")})]

    assert {page.status_code for page in pages} == {200, 422}
    for page in pages:
        assert not re.search(r"<img src=x|<script>alert", page.text), page.url
    assert sum("&lt;script&gt;" in page.text or "&lt;img" in page.text for page in pages) > 12


# ── forms of other sites ────────────────────────────────────────────────────────────────────────

#: Mail programs and mail providers post to these, with a token or a signature.
FROM_ANYWHERE = {"/u/{token}", "/sns"}


POST_PATHS = [route.path for route in ROUTES if isinstance(route, Route) and "POST" in (route.methods or ())]
OTHER_SITES = (
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site", "origin": BASE}, {"origin": "https://evil.example"},
    {"origin": "https://[evil.example"}, {"origin": "http://127.0.0.1:8000.evil.example"},
)  # fmt: skip


def test_every_form_sent_from_another_site_is_refused(served):
    for path, headers in product(POST_PATHS, OTHER_SITES):
        answer = served.client.post(path.replace("{token}", "x").replace("{number:id}", "1"), headers=headers)

        assert (answer.status_code == 403) == (path not in FROM_ANYWHERE), (path, headers)


ODD_HEADERS = (
    {"host": "[", "origin": "null"}, {"host": "localhost:8000@evil.example"}, {"content-length": "\xb2"},
    {"x-forwarded-for": "[::1, 1.2.3"}, {"accept-encoding": "gzip;q=x"}, {"content-type": "multipart/form-data"},
    {"content-type": "multipart/form-data; boundary="}, {"cookie": "=; =\xff"}, {"range": "bytes=9-1"},
)  # fmt: skip


def test_no_header_and_no_method_makes_a_page_fail(served, papers, unsubscribe_path):
    paths = (*PATHS, "/preview", "/link", "/sns", "/outbox", "/outbox/x/source", unsubscribe_path)
    for path, headers in product(paths, ODD_HEADERS):
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        for method in ("GET", "POST"):
            answer = served.client.request(method, path, headers=encoded)
            assert answer.status_code < 500, (method, path, headers)
    for path, method in product(paths, ("HEAD", "PUT", "DELETE", "OPTIONS")):
        assert served.client.request(method, path).status_code < 500, (method, path)


# ── redirects ───────────────────────────────────────────────────────────────────────────────────

HOSTS = ("evil.example", "evil.example/x?", "evil.example//other.example", "user@evil.example:80")


@pytest.mark.parametrize(
    "host", [HOSTS[0], *(pytest.param(host, marks=pytest.mark.whole) for host in HOSTS[1:])]
)
def test_no_redirect_uses_the_host_header(served, papers, digest_sent, unsubscribe_path, manage_path, host):
    reader, link_version = digest_sent.subscriber_id, 0
    ask = path_of(links.topic_links_url(served.site, reader, link_version))
    shown = [path_of(route.path) for route in ROUTES if isinstance(route, Route) and "{" not in route.path]
    shown += [
        "/static",
        f"/papers/{papers[0]}",
        "//evil.example",
        "/\\evil.example",
        "/papers/arxiv:2611.00001",
    ]
    pressed = [
        (unsubscribe_path, "leave"),
        (unsubscribe_path, "undo"),
        (manage_path, "resume"),
        (ask, "mail"),
    ]
    headers = {"host": host}

    answers = [
        served.client.get(path + slash, headers=headers)
        for path in shown
        for slash in ("", "/")
        if path[-1:] != slash
    ]
    answers += [served.client.post(path, data={"do": do}, headers=headers) for path, do in pressed]

    led = [answer.headers["location"] for answer in answers if "location" in answer.headers]
    assert len(led) > len(pressed)
    assert not [place for place in led if not place.startswith("/") or place.startswith(("//", "/\\"))]
    assert "evil" not in " ".join(led)
