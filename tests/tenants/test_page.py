"""The page, in a real Chromium over TLS: what a person sees, decides, and cannot be made to do by another page."""

import http.client
import shlex
import shutil
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.looking import free_port
from tests.tenants.browser import ENTER, TAB, Browser, browsing, until
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.serving import PASSWORD, certificate, living
from tests.tenants.spawning import served

from ringfence.policy.words import plainly, quoted
from ringfence.service.markup import document, plain, tag
from ringfence.service.page import COOKIE
from ringfence.service.views import question

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.usefixtures("installed"),
    pytest.mark.needs_program("chromium", "chromedriver", "openssl"),
]


class Place:
    """A service at a port, and a workspace that is a repository."""

    def __init__(self, hosting: Hosting, port: int, shared: Path) -> None:
        self.hosting, self.port, self.origin = hosting, port, f"https://localhost:{port}"
        self.name = hosting.name("a")
        self.home = f"/w/{self.name}"
        self.shared = shared

    def ask(
        self, method: str, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """What somebody without a browser gets."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        link = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        given = {"Host": f"localhost:{self.port}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        body = None if form is None else urllib.parse.urlencode(form)
        if form is not None:
            given["Content-Type"] = "application/x-www-form-urlencoded"
        link.request(method, path, body, given)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, answer.headers, text

    def visit(self, account: str = "alice") -> str:
        """The cookie of somebody who logged in."""
        form = {"account": account, "password": PASSWORD}
        status, headers, _ = self.ask("POST", "/login", form, Origin=self.origin)
        assert status == 303
        return headers["set-cookie"].partition(";")[0]


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """Something that is not the tenant's; a run has a /tmp and a /var/tmp of its own, so it is elsewhere."""
    made = Path(tempfile.mkdtemp(prefix="rf-shared-", dir="/srv"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def place(installed: None, shared: Path) -> Iterator[Place]:
    with hosted() as hosting:
        one, other = hosting.create("a"), hosting.create("b")
        accounts = {"alice": (one.name,), "bob": (other.name,)}
        hosting.commit(one)
        port = free_port()
        with served(hosting) as spawner:
            files = certificate(spawner.top)
            options = ("--listen", f"127.0.0.1:{port}", "--certificate", files[0], "--key", files[1])
            with living(spawner, accounts, "", *options):
                found = Place(hosting, port, shared)
                (found.shared / "prices").write_text("twelve\n")
                (found.shared / "prices").chmod(0o644)
                yield found


@pytest.fixture(scope="module")
def browser(place: Place) -> Iterator[Browser]:
    """One that has logged in, by the keyboard alone."""
    with browsing() as made:
        made.size(1000, 800)
        made.go(place.origin)
        made.shot("login")
        made.press(TAB)
        assert made.role(":focus") == ("link", "To the content")
        made.press(TAB, *"alice", TAB, *PASSWORD, ENTER)
        made.reads("No question waits")
        yield made
        assert made.complaints() == []


def run(browser: Browser, place: Place, command: str, ask: bool = False) -> None:
    browser.go(place.origin + place.home)
    browser.type("#field-command", command)
    if not ask:
        browser.click("input[name=ask]")
    browser.click("main form.row button")
    until(lambda: "/runs/" in browser.url or _missing("no run"), 10)


def _missing(what: str) -> bool:
    raise LookupError(what)


def test_output_as_it_comes_and_denials_with_their_reasons(browser: Browser, place: Place) -> None:
    wait = "while [ ! -e go ]; do sleep 0.05; done"
    run(browser, place, f"sh -c \"printf '\\033[1mfirst\\033[0m\\n'; {wait}; echo last; cat {place.shared}/prices\"")
    browser.reads("first", "#output")
    assert "last" not in browser.text("#output")
    assert "running" in browser.text("#facts")
    browser.shot("run")
    Path(place.hosting.base, place.name, "user/src/go").touch()
    browser.reads("last", "#output")
    browser.reads("exit 1, 1 refused", "#facts")
    browser.reads(f"read {place.shared}/prices", "#denials")
    browser.reads("--allow-read", "#denials")
    browser.shot("denied")


ANSWERS = [
    ("once", "twelve", 0),
    ("deny", "", 1),
    ("session", "twelve", 0),
    ("project", "twelve", 0),
    ("always", "twelve", 0),
]


@pytest.mark.parametrize(("answer", "said", "status"), ANSWERS)
def test_a_person_answers_and_the_paused_command_goes_on(
    browser: Browser, place: Place, answer: str, said: str, status: int
) -> None:
    """The command waits in the kernel; the question comes to the page by itself, with the exact rule."""
    target = f"{place.shared}/{answer}"
    Path(target).write_text("twelve\n")
    Path(target).chmod(0o644)
    run(browser, place, f'sh -c "echo before; cat {target}; echo after $?"', ask=True)
    browser.reads("before", "#output")
    browser.reads(f"read {target}", "#questions")
    assert "after" not in browser.text("#output")
    assert f"--allow-read {target} in " in browser.text("#questions")
    until(lambda: not browser.run("return document.querySelector('form.question').inert") or _missing("inert"), 5)
    assert browser.role("button[value=project]") == ("button", "Project")
    if answer == "session":  # the rule that is shown follows what it is to name
        browser.click(f"option[value='{place.shared}']")
        browser.reads(f"--allow-read {place.shared} in ", "#questions")
        browser.click(f"option[value='{target}']")
    browser.shot(f"question-{answer}")
    browser.run("arguments[0].focus()", browser.element(f"button[value={answer}]"))
    browser.press(ENTER)
    browser.reads(f"after {status}", "#output")
    assert (said in browser.text("#output").split()) == (said != "")
    browser.reads("exit 0", "#facts")
    browser.go(f"{place.origin}{place.home}/approvals")
    assert (target in browser.text("main")) == (answer in ("session", "project", "always"))
    if answer == "project":
        browser.shot("approvals")
        browser.click(f"button[aria-label*='{target}']")
        until(lambda: target not in browser.text("main") or _missing("it is still there"), 10)


# What lies under the finger, where the first question's last answer but one was, as soon as anything there changed.
UNDER = """
const button = document.querySelector("form.question button[value=always]").getBoundingClientRect();
const place = [button.left + button.width / 2, button.top + button.height / 2];
const look = () => document.elementFromPoint(...place)?.closest("button")?.id ?? "";
window.under = [look()];
const seen = () => window.under.push(look());
new MutationObserver(seen).observe(document.querySelector("#questions"), { childList: true });
return window.under[0];
"""


def test_a_question_does_not_slide_under_the_finger(browser: Browser, place: Place) -> None:
    """The command ends who asked first, just before it is answered: what asked next stands there then."""
    for name in ("first", "next"):
        (place.shared / name).write_text("twelve\n")
        (place.shared / name).chmod(0o644)
    asks = f"cat {place.shared}/first & first=$!; sleep 1; cat {place.shared}/next & "
    run(browser, place, f"sh -c '{asks} while [ ! -e slide ]; do sleep 0.05; done; kill -9 $first; wait'", ask=True)
    browser.reads(f"read {place.shared}/next", "#questions")
    settled = "return [...document.querySelectorAll('form.question')].every((form) => !form.inert)"
    until(lambda: browser.run(settled) or _missing("inert"), 5)
    first = browser.run(UNDER)
    assert first.endswith("-always")
    Path(place.hosting.base, place.name, "user/src/slide").touch()
    browser.reads("1 waiting", "#questions")
    moved = browser.run("return document.querySelector('form.question button[value=always]').id")
    assert moved != first
    assert moved not in browser.run("return window.under")[:2]
    until(lambda: not browser.run("return document.querySelector('[moved]')") or _missing("moved"), 5)
    browser.click("button[value=deny]")
    browser.reads("exit 0", "#facts")


def test_a_question_that_is_there_when_the_page_comes_waits_too(browser: Browser, place: Place) -> None:
    """Who answered one by pressing twice would answer the next with it, for that stands in its place."""
    (place.shared / "early").write_text("twelve\n")
    (place.shared / "early").chmod(0o644)
    run(browser, place, f"cat {place.shared}/early", ask=True)
    browser.reads(f"read {place.shared}/early", "#questions")
    look = "window.early = [...document.querySelectorAll('form.question')].map((form) => form.inert)"
    source = f"addEventListener('DOMContentLoaded', () => {{ {look} }})"
    browser.tell("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    browser.go(browser.url)
    assert browser.run("return window.early") == [True]
    until(lambda: not browser.run("return document.querySelector('form.question').inert") or _missing("inert"), 5)
    browser.click("button[value=deny]")
    browser.reads("exit 1", "#facts")


EARLY = """
const begun = {};
window.early = [];
const look = () => { for (const form of document.querySelectorAll("form.question")) {
    begun[form.action] ??= performance.now();
    if (performance.now() - begun[form.action] < 500) window.early.push(form.inert);
} };
new MutationObserver(look).observe(document.querySelector("#questions"), { childList: true });
"""


def test_a_question_waits_though_another_comes(browser: Browser, place: Place) -> None:
    """All forms are made anew then, and the one that had just come took answers at once."""
    for name in ("one", "two"):
        (place.shared / name).write_text("twelve\n")
        (place.shared / name).chmod(0o644)
    asks = f"cat {place.shared}/one & sleep 0.3; cat {place.shared}/two & wait"
    run(browser, place, f"sh -c 'while [ ! -e both ]; do sleep 0.05; done; {asks}'", ask=True)
    browser.find("#questions")
    browser.run(EARLY)
    Path(place.hosting.base, place.name, "user/src/both").touch()
    browser.reads("2 waiting", "#questions")
    assert set(browser.run("return window.early")) == {True}
    for left in ("1 waiting", "No question waits"):
        until(lambda: not browser.run("return document.querySelector('[inert], [moved]')") or _missing("inert"), 5)
        browser.click("button[value=deny]")
        browser.reads(left, "#questions") if "1" in left else browser.reads("exit 0", "#facts")


FETCHED = "return performance.getEntriesByType('resource').some((one) => one.initiatorType === 'xmlhttprequest')"


def test_a_page_that_is_watched_says_when_one_is_logged_out(browser: Browser, place: Place) -> None:
    """It stood there as if it were so, for whatever the stream then said was no stream."""
    browser.go(place.origin + place.home)
    until(lambda: browser.run(FETCHED) or _missing("not watched yet"), 5)
    [cookie] = browser.tell("Network.getCookies", {})["cookies"]
    left = place.ask("POST", "/logout", {}, Origin=place.origin, Cookie=f"{cookie['name']}={cookie['value']}")
    assert left[0] == 303
    browser.type("#field-account", "alice")
    browser.type("#field-password", PASSWORD + ENTER)
    browser.reads("No question waits")
    assert all("text/event-stream" in complaint for complaint in browser.complaints())


TOO_OFTEN = """
const real = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, "status");
window.told = 0;
const get = function () { return window.told++ ? real.get.call(this) : 429; };
Object.defineProperty(XMLHttpRequest.prototype, "status", { get });
"""


def test_who_is_told_that_it_is_too_often_still_watches(browser: Browser, place: Place) -> None:
    """As where a program of the same account asks all the time: the page was one of that trouble then, for good."""
    browser.go(place.origin + place.home)
    until(lambda: browser.run(FETCHED) or _missing("not watched yet"), 5)
    browser.run(TOO_OFTEN)
    form = {"command": "echo much-asked"}
    place.ask("POST", f"{place.home}/runs", form, Origin=place.origin, Cookie=place.visit())
    browser.reads("echo much-asked", "#runs")
    assert browser.run("return window.told") > 1  # the page is the same one


def test_many_tabs_at_once(browser: Browser, place: Place) -> None:
    """A browser has six connections to one place, and a run that goes on is watched on two."""
    run(browser, place, "sh -c 'echo up; while [ ! -e tabs ]; do sleep 0.05; done; echo down'")
    browser.reads("up", "#output")
    watched = browser.url
    with browser.tabs() as more:
        for _ in range(6):
            more()
            browser.go(watched)
            browser.reads("up", "#output")
    browser.reads("up", "#output")
    Path(place.hosting.base, place.name, "user/src/tabs").touch()
    browser.reads("down", "#output")
    browser.reads("exit 0", "#facts")
    assert browser.text("#output").split() == ["up", "down"]


def test_a_list_that_is_watched_changes_by_itself(browser: Browser, place: Place) -> None:
    browser.go(place.origin + place.home)
    browser.find("#runs")
    cookie = place.visit()
    status, _, _ = place.ask(
        "POST", f"{place.home}/runs", {"command": "echo somebody-else"}, Origin=place.origin, Cookie=cookie
    )
    assert status == 303
    browser.reads("echo somebody-else", "#runs")
    browser.reads("exit 0", "#runs")


def test_a_session_with_its_changes(browser: Browser, place: Place) -> None:
    browser.go(f"{place.origin}{place.home}/sessions")
    browser.type("#field-slug", "feature-x" + ENTER)
    browser.reads("ringfence/feature-x from main")
    browser.go(place.origin + place.home)
    browser.type("#field-command", "sh -c 'echo two >> f; echo \"<b>new</b>\" > page.html'")
    browser.click("option[value=feature-x]")
    browser.click("input[name=ask]")
    browser.click("main form.row button")
    browser.reads("exit 0", "#facts")
    browser.go(f"{place.origin}{place.home}/sessions/feature-x")
    browser.reads("+two", "pre")
    browser.shot("session")
    browser.click("form[action$='/end'] button")
    browser.reads("ended · ringfence/feature-x")
    browser.click("form[action$='/merge'] button")
    browser.reads("None.")


def test_the_audit_log_is_searched(browser: Browser, place: Place) -> None:
    run(browser, place, "echo audit-mark")
    browser.reads("exit 0", "#facts")
    browser.go(f"{place.origin}{place.home}/audit")
    browser.type("#field-q", "audit-mark" + ENTER)
    browser.reads("1 events")
    browser.reads("echo audit-mark: ")
    assert browser.role("form[role=search]")[0] == "search"
    browser.shot("audit")


SMALL = """return [...document.querySelectorAll('button, input:not([type=checkbox]), select')]
    .filter(element => element.getBoundingClientRect().height < 44).length"""


# Of every text: what stands out less from its ground than 4.5 to 1, which WCAG calls AA.
FAINT = """
const parts = (text) => text.match(/[0-9.]+/g).map(Number);
const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = (text) => parts(text).slice(0, 3).map(linear)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => { for (; e; e = e.parentElement) {
    const found = parts(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] > 0) return getComputedStyle(e).backgroundColor;
} return 'rgb(255, 255, 255)'; };
const texts = [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
return texts.filter((e) => { const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 4.5; }).map((e) => e.outerHTML.slice(0, 80));
"""


def test_all_of_it_by_keyboard_and_by_ear(browser: Browser, place: Place) -> None:
    """The way to the content comes first; then Tab reaches all that can be pressed, each says what it is, and one can
    see where one is."""
    run(browser, place, "echo by-keyboard")
    browser.reads("exit 0", "#facts")
    for path in ("", "/sessions", "/approvals", "/audit", browser.url.partition(place.home)[2]):
        browser.go(place.origin + place.home + path)
        outline = "return [document.documentElement.lang, document.querySelectorAll('h1').length, "
        outline += "document.querySelectorAll('main').length, document.title !== '']"
        assert browser.run(outline) == ["en", 1, 1, True], path
        wanted = browser.run(
            "window.all = [...document.querySelectorAll('a[href], button, input, select, [tabindex=\"0\"]')]"
            ".filter((e) => e.checkVisibility()); return all.length"
        )
        reached = []
        for _ in range(wanted):
            browser.press(TAB)
            reached.append(browser.run("return all.indexOf(document.activeElement)"))
            seen = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
            role, name = browser.role(":focus")
            assert (seen, bool(role), bool(name)) == ("solid", True, True), (path, role, name)
        assert reached == [*range(wanted)], path
        assert browser.run("return all[0].getAttribute('href')") == "#content", path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_in_both_colours(browser: Browser, place: Place, scheme: str) -> None:
    """Nothing is wider than the screen, what is pressed is large enough, and text stands out from its ground."""
    browser.size(375, 700)
    browser.colours(scheme)
    try:
        for path in ("", "/sessions", "/approvals", "/audit"):
            browser.go(place.origin + place.home + path)
            assert browser.run("return document.documentElement.scrollWidth") <= 375, path
            assert browser.run(SMALL) == 0, path
            assert browser.run(FAINT) == [], path
        ground = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) > 380) == (scheme == "light")
        browser.go(place.origin + place.home)
        browser.shot(f"phone-{scheme}")
    finally:
        browser.size(1000, 800)
        browser.colours("light")


HOSTILE = "<img src=x onerror=document.title='owned'> \u202e\x1b[31m</script>\"'&"


def test_what_a_command_says_is_shown_and_does_nothing(browser: Browser, place: Place) -> None:
    cookie = place.visit()
    form = {"command": shlex.join(["printf", "%s", HOSTILE])}
    _, headers, _ = place.ask("POST", f"{place.home}/runs", form, Origin=place.origin, Cookie=cookie)
    browser.go(place.origin + headers["location"])
    browser.reads("exit 0", "#facts")  # what has ended is in the log
    for path in (headers["location"], place.home, f"{place.home}/audit?q=img"):
        browser.go(place.origin + path)
        browser.reads("<img src=x")
        assert browser.run("return [document.title === 'owned', document.images.length]") == [False, 0]


def test_what_a_file_is_called_is_shown_and_does_nothing(browser: Browser, place: Place) -> None:
    """In a question, in the rule that a yes would store, in an approval, and in what was refused."""
    target = f"{place.shared}/<img src=x onerror=alert(1)>"
    Path(target).write_text("x\n")
    Path(target).chmod(0o644)
    run(browser, place, shlex.join(["cat", target]), ask=True)
    browser.reads("<img src=x", "#questions")
    assert browser.run("return document.images.length") == 0
    until(lambda: not browser.run("return document.querySelector('form.question').inert") or _missing("inert"), 5)
    browser.click("button[value=session]")
    browser.reads("exit 0", "#facts")
    browser.go(f"{place.origin}{place.home}/approvals")
    browser.reads("<img src=x", "main")
    browser.click("button[aria-label*='<img']")
    until(lambda: "<img" not in browser.text("main") or _missing("it is still there"), 10)
    run(browser, place, shlex.join(["cat", target]))
    browser.reads("Refused: 1", "#denials")
    assert browser.run("return document.images.length") == 0


@pytest.mark.parametrize("name", ["Screenshot at 3.45\u202fPM.png", "a\nb", "it's"])
def test_a_name_that_is_shown_with_numbers_is_what_a_yes_stores(browser: Browser, place: Place, name: str) -> None:
    """A form gives back what was shown, and another end of a line than it was given."""
    (place.shared / name).mkdir()
    target = place.shared / name / name
    target.write_text("twelve\n")
    target.chmod(0o644)
    run(browser, place, shlex.join(["python3", "-c", f"print(open({str(target)!r}).read())"]), ask=True)
    browser.reads("stored by", "#questions")
    until(lambda: not browser.run("return document.querySelector('form.question').inert") or _missing("inert"), 5)
    narrow = browser.text("code[data-rule]")
    browser.click("option:nth-child(2)")
    wide = browser.text("code[data-rule]")
    assert wide == narrow.replace(f"/{plainly(quoted(name))[1:-1]}' in ", "' in ")
    assert wide != narrow
    browser.click("button[value=session]")
    browser.reads("exit 0", "#facts")
    assert "twelve" in browser.text("#output")
    browser.go(f"{place.origin}{place.home}/approvals")
    browser.reads(f"'{place.shared}/", "main")
    browser.click(f'button[aria-label*="\'{place.shared}/"]')  # others' may stand there, too
    until(lambda: f"'{place.shared}/" not in browser.text("main") or _missing("it is still there"), 10)


def test_the_one_thing_that_may_be_named_is_what_a_yes_names() -> None:
    """Of a name that is not there yet, its directory: the name itself would be refused."""
    asked = {"query_id": "1", "run": "0" * 32, "argv": ["touch"], "operation": "create", "path": "/data/new"}
    shown = question("/w/a", {**asked, "choices": ["/data"], "rule": "--allow-write /data in /w"})
    assert '<input type="hidden" name="target" value="/data">' in shown


def test_markup_hides_nothing() -> None:
    assert plain("a\u202eb\x00\n") == "a\\u{202e}b\\u{0}\n"
    made = tag("p", HOSTILE, title=HOSTILE, hidden=False, class_=None)
    assert made.count("<") == 2
    assert made.count('"') == 2
    assert b"<title>&lt;/title&gt;</title>" in document("</title>")


def test_another_page_cannot_act_for_the_person(place: Place) -> None:
    """A form without our own origin does nothing, even with the cookie; and neither door opens with the other's key."""
    cookie = place.visit()
    form = {"command": "touch owned"}
    runs = f"{place.home}/runs"
    for headers in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://evil.localhost:{place.port}"},
    ):
        assert place.ask("POST", runs, form, Cookie=cookie, **headers)[0] == 403
    sites = {"Origin": place.origin, "Sec_Fetch_Site": "cross-site"}
    assert place.ask("POST", runs, form, Cookie=cookie, **sites)[0] == 403
    assert place.ask("POST", runs, form, Origin=place.origin)[0] == 303  # to log in
    assert place.ask("GET", f"/api/workspaces/{place.name}/files", Cookie=cookie)[0] == 401
    status, _, text = place.ask("GET", place.home, Authorization=f"Bearer {cookie.partition('=')[2]}")
    assert (status, "touch owned" in text) == (303, False)
    assert place.ask("POST", runs, form, Origin=place.origin, Cookie=cookie)[0] == 303  # and by the person it does
    others = place.visit("bob")
    assert place.ask("GET", place.home, Cookie=others)[0] == 403
    many = {f"field-{number}": "x" for number in range(21)}  # from anybody, and no failure of ours
    assert place.ask("POST", "/login", many, Origin=place.origin)[0] == 400
    assert place.ask("POST", "/logout", {}, Cookie=cookie, Origin=place.origin)[0] == 303
    assert place.ask("GET", place.home, Cookie=cookie)[0] == 303


def test_the_headers_of_the_page(place: Place) -> None:
    status, headers, _ = place.ask("POST", "/login", {"account": "alice", "password": PASSWORD}, Origin=place.origin)
    cookie = headers["set-cookie"]
    assert status == 303
    assert cookie.startswith(f"{COOKIE}=")
    for word in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"):
        assert word in cookie
    assert "Domain" not in cookie
    _, headers, text = place.ask("GET", "/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "form-action 'self'" in policy
    assert "<script>" not in text
    assert " style=" not in text
    assert place.ask("GET", "/", Host="evil.example")[0] == 403
    status, _, text = place.ask("POST", "/login", {"account": "alice", "password": "wrong"}, Origin=place.origin)
    assert status == 401
    assert "no account has this name" in text
