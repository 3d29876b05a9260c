"""The documents say what the code does: options, keys, examples, links, and the tests they name."""

import ast
import importlib.machinery
import importlib.util
import inspect
import re
import shlex
import sys
import types
from pathlib import Path

import pytest

import ringfence
from ringfence.cli import (
    VERBS,
    approvals,
    hook,
    install,
    judge,
    learn,
    log,
    mcp,
    plan,
    policy,
    profile,
    run,
    service,
    session,
    spawner,
    tenant,
    trust,
    why,
)
from ringfence.cli import usage as usage
from ringfence.cli.options import OUTPUT, Option, parse
from ringfence.model import UsageError
from ringfence.plan.environment import ALLOWED
from ringfence.policy.layer import Layer
from ringfence.policy.parse import parse as parse_policy
from ringfence.policy.paths import Base

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TABLES: dict[str, tuple[Option, ...]] = {
    "run": run.TABLE,
    "plan": plan.TABLE,
    "doctor": OUTPUT,
    "why": why.TABLE,
    "policy": policy.TABLE,
    "trust": trust.TABLE,
    "judge": judge.TABLE,
    "hook": hook.table(),
    "install": install.TABLE,
    "uninstall": install.TABLE,
    "status": install.TABLE,
    "mcp": mcp.TABLE,
    "profile": profile.TABLE,
    "approvals": approvals.TABLE,
    "session": session.TABLE,
    "tenant": tenant.TABLE,
    "service": service.TABLE,
    "spawner": spawner.TABLE,
    "log": log.TABLE,
    "learn": learn.TABLE,
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(text: str, language: str = "") -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# ---- The man page ----


def section(page: str, title: str) -> str:
    """The lines of one .SH or .SS section."""
    found = re.search(rf'^\.S[HS] "?{re.escape(title)}"?\n(.*?)(?=^\.S[HS] |\Z)', page, re.MULTILINE | re.DOTALL)
    assert found, f"the man page has no section {title}"
    return found[1]


def options_of_the_page(page: str) -> dict[str, set[tuple[str, str]]]:
    """Each verb with its options and what follows them: a heading of the page is `about: verb, verb`."""
    found: dict[str, set[tuple[str, str]]] = {verb: set() for verb in VERBS}
    for heading, verbs in re.findall(r'^\.SS "([^"]*: ([a-z, ]+))"$', page, re.MULTILINE):
        lines = re.findall(r'^\.TP\n\.BI? (\\-\\-[\w\\-]+)(?: " ([A-Z ]+)")?$', section(page, heading), re.MULTILINE)
        for verb in verbs.split(", "):
            found[verb] |= {(option.replace("\\", ""), value) for option, value in lines}
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_the_man_page_has_the_options_of_every_verb(verb: str) -> None:
    expected = {(option.name, option.value) for option in TABLES[verb]}

    assert options_of_the_page(text_of("man/ringfence.1"))[verb] == expected


def test_the_reader_of_the_man_page_sees_an_option_that_is_too_many() -> None:
    page = text_of("man/ringfence.1").replace(
        ".TP\n.B \\-\\-quiet\n", '.TP\n.BI \\-\\-loud " HOW"\n.TP\n.B \\-\\-quiet\n'
    )

    assert ("--loud", "HOW") in options_of_the_page(page)["run"]


def test_the_man_page_names_every_variable_that_passes() -> None:
    listed = section(text_of("man/ringfence.1"), "What reaches the command").partition(".nh\n")[2].partition(".hy\n")[0]

    assert set(listed.split()) == ALLOWED


def test_the_man_page_has_every_exit_code_that_the_help_has() -> None:
    page = section(text_of("man/ringfence.1"), "EXIT STATUS")

    codes = set(re.findall(r"^\.B (\d+)$", page, re.MULTILINE))
    assert codes == set(re.findall(r"(?<!\+)\b\d+\b", usage().partition("exit codes:")[2].replace("128+n", "")))
    assert codes == {"1", "2", "123", "124", "125", "126", "127"}


# ---- Examples ----


def examples(text: str) -> list[list[str]]:
    """The words of every `ringfence` line in a page's shell blocks, and in the man page's examples. Where a block has
    prompts, what has none is what was answered."""
    shown = [(block, line) for block in blocks(text) for line in block.splitlines()]
    lines = [line for block, line in shown if line.startswith("$ ") or "$ ringfence " not in block]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith(("$ ringfence ", "ringfence "))]
    return [shlex.split(command, comments=True)[1:] for command in commands]


def is_understood(words: list[str]) -> bool:
    """Whether a verb and all its options are known; pipes and redirections are a shell's."""
    for mark in ("|", ">", "<"):
        words = words[: words.index(mark)] if mark in words else words
    if words[0] not in VERBS:
        return False
    try:
        _, rest = parse(words[1:], TABLES[words[0]])
        own = {"why": 2, "policy": 1, "session": 1 if len(rest) < 2 or rest[1].startswith("-") else 2}
        own["log"] = 2 if rest[:1] == ["export"] else 1
        if words[0] in own:
            parse(rest[own[words[0]] :], TABLES[words[0]])
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_names_a_verb_and_options_that_there_are(page: Path) -> None:
    assert [words for words in examples(page.read_text()) if not is_understood(words)] == []


def test_the_readme_shows_the_verbs_that_come_first() -> None:
    assert {"run", "plan", "doctor", "why"} <= {words[0] for words in examples(text_of("README.md"))}


def test_the_examples_of_the_man_page_are_understood() -> None:
    page = section(text_of("man/ringfence.1"), "EXAMPLES").replace("\\", "")
    words = examples(f"```\n{page}```\n")

    assert len(words) > 5
    assert [each for each in words if not is_understood(each)] == []


@pytest.mark.parametrize("line", ["run --alow-read x -- true", "rum -- true", "policy show --orign", "why --timeout 5"])
def test_an_example_that_is_wrong_is_found(line: str) -> None:
    assert not is_understood(line.split())


# ---- Policies ----


def reference() -> types.ModuleType:
    """The script that writes the table of keys."""
    path = str(ROOT / "scripts/policy-reference")
    loader = importlib.machinery.SourceFileLoader("policy_reference", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # its cache would lie in scripts/
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def test_the_table_of_keys_is_the_one_in_the_code() -> None:
    page = text_of("docs/policy.md")

    assert page == reference().renewed(page), "run .venv/bin/python scripts/policy-reference"


def test_a_table_that_is_old_is_found() -> None:
    page = text_of("docs/policy.md").replace("| `network.allowNetwork` |", "| `network.allowNet` |")

    assert page != reference().renewed(page)


def test_the_two_examples_of_a_policy_say_the_same() -> None:
    page = text_of("docs/policy.md")
    base = Base("/work", "/home/somebody")

    def said(language: str) -> set[str]:
        (content,) = blocks(page, language)
        layer = parse_policy(content.encode(), f"policy.{language}", base)
        assert isinstance(layer, Layer)
        rules = {f"{rule.access.value} {rule.verdict.word} {rule.path} {rule.glob}" for rule in layer.rules}
        return rules | {f"{setting.key} {setting.value}" for setting in layer.settings}

    assert said("json") == said("toml")


# ---- Examples in Python ----


def unknown_names(code: str) -> list[str]:
    """What an example takes from ringfence, or gives to it by name, and there is not."""
    compile(code, "an example", "exec")  # which finds what the tree alone does not: `async with` outside a function
    unknown = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "ringfence":
            unknown += [one.name for one in node.names if not hasattr(ringfence, one.name) and one.name != "asking"]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ringfence":
            unknown += [] if hasattr(ringfence, node.attr) else [node.attr]
        if isinstance(node, ast.Call):
            called = getattr(ringfence, ast.unparse(node.func).removeprefix("ringfence."), None)
            known = inspect.signature(called).parameters if called else {}
            unknown += [one.arg for one in node.keywords if called and one.arg and one.arg not in known]
    return unknown


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".md"], ids=name_of)
def test_examples_in_python_are_programs_and_name_what_there_is(page: Path) -> None:
    for code in blocks(page.read_text(), "python"):
        assert unknown_names(code) == []


def test_an_example_in_python_that_is_wrong_is_found() -> None:
    code = "from ringfence import Flag\nringfence.runs\nringfence.run(['x'], timout=1)\nFlags(alow_read=('x',))"

    assert sorted(unknown_names(code)) == ["Flag", "alow_read", "runs", "timout"]
    with pytest.raises(SyntaxError):
        unknown_names("async with ringfence.start(['x']) as running:\n    pass")


# ---- What documents point at ----


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """The links of a page to files or headings that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_documents_resolve(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](docs/nowhere.md) [b](README.md#no-such-heading) [c](README.md#try-it) [d](https://example.org)"

    assert broken_links(ROOT / "README.md", text) == ["docs/nowhere.md", "README.md#no-such-heading"]


def stray_rows(text: str) -> list[str]:
    """Rows behind an empty line that are no head of a table: they are shown as text."""
    return re.findall(r"\n\n(\|.*)\n(?!\|-)", f"{text}\n")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_row_stands_in_its_table(page: Path) -> None:
    assert stray_rows(page.read_text()) == []


def test_a_row_that_stands_alone_is_found() -> None:
    assert stray_rows("a\n\n| b |\n|---|\n| c |\n\n| d |\n\ne") == ["| d |"]


def named_tests(text: str) -> set[str]:
    """Test files named in a page, from tests/ on; the threat model leaves that word out."""
    return {name.removeprefix("tests/") for name in re.findall(r"`((?:tests/)?(?:\w+/)*test_\w+\.py)`", text)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_a_document_names_exists(page: Path) -> None:
    shorthand = {path.name for path in (ROOT / "tests").rglob("test_*.py")}  # a name without its directory
    missing = [
        name
        for name in named_tests(page.read_text())
        if not (ROOT / "tests" / name).is_file() and not ("/" not in name and name in shorthand)
    ]

    assert missing == []


def test_every_row_of_the_threat_model_names_a_test_or_says_that_there_is_none() -> None:
    promises, _, _ = text_of("docs/threat-model.md").partition("## What weakens it")
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| what |")]

    assert len(rows) > 25
    assert [row for row in rows if not named_tests(row) and not row.endswith("| none |")] == []


def test_decisions_are_numbered_without_a_hole_and_say_their_number() -> None:
    files = sorted((ROOT / "docs/decisions").glob("*.md"))

    assert [path.name[:4] for path in files] == [f"{number:04}" for number in range(1, len(files) + 1)]
    assert [path.read_text().split(" ")[:2] for path in files] == [["#", f"{n}."] for n in range(1, len(files) + 1)]


def unnamed(page: str, files: list[Path]) -> list[str]:
    """The files that a page does not name: a module by its stem, a file of C with its suffix."""
    words = set(re.findall(r"`([\w.]+)`", page))
    return [path.name for path in files if not {path.name, path.stem if path.suffix == ".py" else ""} & words]


def test_the_page_of_the_architecture_names_every_file() -> None:
    """But for the doors' own verbs, which --help has."""
    source = ROOT / "src" / "ringfence"
    files = [path for path in source.rglob("*") if path.suffix in (".py", ".c", ".h") and "__" not in path.name]
    verbs = {source / "cli" / f"{verb}.py" for verb in VERBS}
    page = (ROOT / "docs" / "architecture.md").read_text()

    assert unnamed(page, [path for path in files if path not in verbs]) == []


def test_a_file_that_no_page_names_is_found() -> None:
    files = [Path("plan/made.py"), Path("enforce/made.h"), Path("plan/view.py")]

    assert unnamed("`view` and `made`", files) == ["made.h"]
    assert unnamed("`view` and `made.h`", files) == ["made.py"]
