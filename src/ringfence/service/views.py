"""What the pages show, as pure functions from what is known to HTML."""

import base64
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..audit.words import sentence
from ..model.event import AnyEvent
from ..policy.words import plainly, quoted
from .markup import Markup, document, joined, tag
from .shapes import Approval, Worktree

# No piece of it looks beyond the next escape: a command could otherwise make one look cost minutes.
ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")
MOST_DIFF, MOST_SHOWN = 2000, 1 << 18  # lines, and letters, of a patch
MOST_COMMAND = 300  # letters of a command in a list
ANSWERS = (
    ("once", "Once", "only what waits now"),
    ("session", "Session", "this workspace, 12 hours at most"),
    ("project", "Project", "this workspace"),
    ("always", "Always", "every workspace"),
    ("deny", "Deny", "no"),
)
SECTIONS = (("", "Runs"), ("/sessions", "Sessions"), ("/approvals", "Approvals"), ("/audit", "Audit log"))

Document = dict[str, Any]


def page(
    title: str, workspace: str, section: str, *inside: object, narrow: bool = False, command: bool = False
) -> bytes:
    """A page with its way around."""
    links = [
        tag("a", name, href=f"/w/{workspace}{path}", aria_current="page" if name == section else None)
        for path, name in SECTIONS
    ]
    top = tag(
        "header",
        tag("a", "To the content", class_="skip", href="#content"),
        tag("strong", workspace or "ringfence"),
        tag("nav", *links, aria_label="Workspace") if workspace else None,
        form("/logout", button("Log out", class_="quiet")) if section else None,
    )
    heading = tag("h1", title, tabindex="-1", class_="command" if command else None)
    main = tag("main", heading, *inside, id="content", class_="narrow" if narrow else None)
    return document(f"{title} · ringfence", top, main)


def form(action: str, *inside: object, **attributes: object) -> Markup:
    """A form that changes something."""
    return tag("form", *inside, method="post", action=action, **attributes)


def button(text: str, **attributes: object) -> Markup:
    return tag("button", text, **{"type": "submit", **attributes})


def field(text: str, name: str, **attributes: object) -> Markup:
    return tag(
        "label", text, tag("input", **{"name": name, "id": f"field-{name}", "autocomplete": "off", **attributes})
    )


def moment(seconds: object) -> Markup:
    """A time that a program can read too."""
    utc = time.gmtime(float(str(seconds)))
    text = time.strftime("%Y-%m-%d %H:%M:%S", utc)
    return tag("time", text, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", utc))


# ---- Logging in ----


def login(wrong: str = "") -> bytes:
    """Who are you?"""
    return page(
        "Log in",
        "",
        "",
        tag("p", wrong, class_="bad", role="alert") if wrong else None,
        form(
            "/login",
            field("Account", "account", required=True, autocomplete="username", maxlength="64"),
            field("Password", "password", required=True, type="password", autocomplete="current-password"),
            tag("p", button("Log in")),
            class_="card",
        ),
        narrow=True,
    )


def workspaces(names: Iterable[str]) -> bytes:
    """Which one?"""
    return page(
        "Workspaces", "", "all", tag("ul", *(tag("li", tag("a", n, href=f"/w/{n}"), class_="card") for n in names))
    )


def trouble(message: str, back: str) -> bytes:
    """What was not done."""
    what = tag("p", message, role="alert", class_="bad")
    return page("It was not done", "", "", what, tag("p", tag("a", "Back", href=back)), narrow=True)


# ---- Runs ----


def command(argv: list[str]) -> str:
    """A command as it would be typed, its beginning."""
    text = shlex.join(argv) or "?"
    return text if len(text) <= MOST_COMMAND else text[:MOST_COMMAND] + "…"


def status(run: Document) -> Markup:
    """How a run is, in a word or two."""
    ended = run["ended"]
    if ended is None:
        return tag("span", "running", class_="good")
    if "error" in ended:
        return tag("span", ended["error"]["message"], class_="bad")
    code, denied = ended.get("exitCode", 0), ended.get("denied", len(ended.get("denials", ())))
    refused = f", {denied} refused" if denied else ""
    return tag("span", f"exit {code}{refused}", class_="bad" if code else "good")


def offered(asked: Mapping[str, Any]) -> list[str]:
    """What a yes to a question may name, from the narrowest."""
    return asked.get("choices") or [asked.get("path") or asked.get("target", "")]


def question(base: str, asked: Document) -> Markup:
    """A command waits for a person: what it wants, the exact rule that a yes would store, and the answers."""
    name, action = asked["query_id"], f"{base}/runs/{asked['run']}/questions/{asked['query_id']}"
    process = asked.get("process") or {}
    target = asked.get("path") or asked.get("target", "")
    choices, rule = offered(asked), plainly(asked.get("rule", ""))
    title, exe = plainly(f"{asked.get('operation', '')} {target}"), plainly(process.get("exe") or "a command")
    choose = tag(
        "label",
        "What the rule names",
        tag(
            "select", *(tag("option", plainly(one), data_word=_word(one), value=one) for one in choices), name="target"
        ),
    )
    answers = [
        button(
            text,
            name="answer",
            value=value,
            id=f"answer-{asked['run'][:8]}-{name}-{value}",
            title=hint,
            class_="no" if value == "deny" else "quiet" if value != "once" else None,
        )
        for value, text, hint in ANSWERS
    ]
    return form(
        action,
        tag("p", tag("strong", title)),
        tag("p", "for ", tag("code", exe), " in ", tag("code", plainly(command(asked["argv"])))),
        tag("p", "stored by Project: ", tag("code", rule, data_rule=rule.replace(_word(choices[0]), "{}", 1))),
        tag("p", asked["refused"], class_="bad", role="alert") if asked.get("refused") else None,
        choose if len(choices) > 1 else tag("input", type="hidden", name="target", value=choices[0]),
        tag("p", *answers, class_="row", role="group", aria_label="Your answer"),
        class_="card question",
        aria_label=title,
    )


def _word(target: str) -> str:
    """A target as it stands in a rule."""
    return plainly(quoted(target))


def questions(base: str, asked: list[Document]) -> Markup:
    """All that wait; said aloud when one more comes."""
    title = tag("h2", f"{len(asked)} waiting", id="waiting") if asked else tag("p", "No question waits.", class_="soft")
    inside = (title, *(question(base, one) for one in asked))
    return tag("section", *inside, id="questions", data_live=True, aria_live="polite", aria_label="Questions")


def runs(workspace: str, found: list[Document], asked: list[Document], worktrees: list[str]) -> bytes:
    """What runs, what ran, and what waits for an answer."""
    base = f"/w/{workspace}"
    where = [tag("option", "the workspace", value=""), *(tag("option", one, value=one) for one in worktrees)]
    start = form(
        f"{base}/runs",
        field("Command", "command", required=True, placeholder="npm test", spellcheck="false"),
        tag("label", "Where", tag("select", *where, name="worktree")),
        tag("label", tag("input", type="checkbox", name="ask", value="1", checked=True), "ask me", class_="check"),
        button("Run"),
        class_="card row",
    )
    rows = [
        tag(
            "li",
            tag("a", command(one["argv"]), href=f"{base}/runs/{one['run']}"),
            tag("div", status(one), " · ", moment(one["begun"]), class_="soft"),
            class_="card",
        )
        for one in found
    ]
    listed = tag("ul", *rows) if rows else tag("p", "Nothing has run yet.", class_="soft")
    return page(
        "Runs",
        workspace,
        "Runs",
        questions(base, asked),
        start,
        tag("h2", "Runs"),
        tag("div", listed, id="runs", data_live=True, data_changes=f"{base}/changes"),
    )


def run(workspace: str, one: Document, said: list[Document], last: int, asked: list[Document]) -> bytes:
    """One run: its output as it comes, what it asks, and what it was refused."""
    base = f"/w/{workspace}"
    ended, alive = one["ended"] or {}, one["ended"] is None
    output = tag(
        "pre",
        *outputs(said),
        id="output",
        tabindex="0",
        role="log",
        aria_label="Output",
        data_events=f"{base}/runs/{one['run']}/events?after={last}" if alive else None,
    )
    stop = form(f"{base}/runs/{one['run']}/cancel", button("Stop", class_="no"))
    facts = tag("p", status(one), " · ", moment(one["begun"]), class_="soft")
    return page(
        command(one["argv"]),
        workspace,
        "Runs",
        tag(
            "div",
            facts,
            stop if alive else None,
            id="facts",
            data_live=True,
            data_changes=f"{base}/changes" if alive else None,
        ),
        questions(base, asked) if alive or asked else None,
        tag("h2", "Output"),
        output,
        tag("div", denials(ended.get("denials", []), ended.get("denied", 0)), id="denials", data_live=True),
        command=True,
    )


def outputs(said: list[Document]) -> list[Markup]:
    """What a run said, each piece by its stream."""
    return [
        tag("span", ESCAPES.sub("", base64.b64decode(one["data"]).decode("utf-8", "replace")), class_=one["stream"])
        for one in said
        if "stream" in one
    ]


def denials(found: list[Document], count: int) -> Markup:
    """What was refused, why, and what would allow it."""
    if not found:
        return joined(tag("h2", "Refused"), tag("p", "Nothing was refused.", class_="soft"))
    rows = [
        tag(
            "li",
            tag("strong", f"{one['access']} {one['target']}"),
            tag("div", one["reason"]),
            tag("div", "by ", tag("code", one["exe"]), class_="soft") if one.get("exe") else None,
            tag("div", "would allow it: ", tag("code", one["grant"])) if one.get("grant") else None,
            class_="card",
        )
        for one in found
    ]
    more = tag("p", "There is more than is shown here.", class_="soft") if count > len(found) else None
    return joined(tag("h2", f"Refused: {max(count, len(found))}"), tag("ul", *rows), more)


# ---- Sessions ----


def sessions(workspace: str, found: list[Worktree]) -> bytes:
    """Worktrees with branches of their own."""
    base = f"/w/{workspace}/sessions"
    rows = [
        tag(
            "li",
            tag("a", one["slug"], href=f"{base}/{one['slug']}"),
            tag("div", f"{one['state']} · {one['branch']} · {one['head'][:12]}", class_="soft"),
            class_="card",
        )
        for one in found
    ]
    start = form(base, field("Name", "slug", placeholder="feature-x"), button("Start a session"), class_="card row")
    return page("Sessions", workspace, "Sessions", start, tag("ul", *rows) if rows else tag("p", "There are none yet."))


def session(workspace: str, one: Worktree, patch: str, cut: bool) -> bytes:
    """A session, and what is different in it."""
    base = f"/w/{workspace}/sessions/{one['slug']}"
    cut = cut or len(patch) > MOST_SHOWN or patch.count("\n") > MOST_DIFF
    facts = f"{one['state']} · {one['branch']} from {one['base'] or 'a commit'} · {one['head'][:12]}"
    acts = tag(
        "div",
        form(f"{base}/merge", button("Merge", class_="quiet")),
        form(f"{base}/end", button("End, and keep the branch", class_="quiet")) if one["state"] == "active" else None,
        class_="row",
    )
    return page(
        one["slug"],
        workspace,
        "Sessions",
        tag("p", facts, " · not committed: yes" if one.get("uncommitted") else "", class_="soft"),
        acts,
        tag("h2", "Changes"),
        tag("pre", *differences(patch), tabindex="0", aria_label="Changes") if patch else tag("p", "None."),
        tag("p", "There is more than is shown here.", class_="soft") if cut else None,
    )


KINDS = (("+++", "place"), ("---", "place"), ("diff ", "place"), ("@@", "place"), ("+", "new"), ("-", "gone"))


def differences(patch: str) -> list[Markup]:
    """A patch, line by line."""
    lines = patch[:MOST_SHOWN].split("\n")[:MOST_DIFF]
    return [
        tag("span", f"{line}\n", class_=next((k for start, k in KINDS if line.startswith(start)), None))
        for line in lines
    ]


# ---- Approvals and the audit log ----


def approvals(workspace: str, found: list[Approval]) -> bytes:
    """What was approved, with the rule as it is stored, and the way to take it back."""
    base = f"/w/{workspace}/approvals"
    rows = [
        tag(
            "li",
            tag("code", one["rule"]),
            tag("div", "counts here" if one["counts"] else "not here, or not now", class_="soft"),
            form(f"{base}/{one['id']}/revoke", button("Revoke", class_="no", aria_label=f"Revoke {one['rule']}")),
            class_="card",
        )
        for one in found
    ]
    return page("Approvals", workspace, "Approvals", tag("ul", *rows) if rows else tag("p", "There are none."))


def audit(workspace: str, events: list[AnyEvent], text: str, denied: bool) -> bytes:
    """The newest events, and the ones that have a text."""
    search = tag(
        "form",
        field("Search", "q", value=text, type="search"),
        tag(
            "label",
            tag("input", type="checkbox", name="denied", value="true", checked=denied),
            "refused only",
            class_="check",
        ),
        button("Search"),
        class_="card row",
        method="get",
        role="search",
    )
    rows = [_event(one) for one in events]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("When", "What", "Said"))))
    table = tag(
        "table", tag("caption", f"{len(rows)} events, the newest first", class_="soft"), head, tag("tbody", *rows)
    )
    return page("Audit log", workspace, "Audit log", search, table if rows else tag("p", "Nothing was found."))


def _event(event: AnyEvent) -> Markup:
    kind, said = sentence(event)
    when = tag("td", tag("time", event.at[:19].replace("T", " "), datetime=event.at), class_="when soft")
    return tag("tr", when, tag("td", kind, class_="bad" if kind in ("denied", "escape") else None), tag("td", said))
