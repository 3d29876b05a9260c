"""The agents themselves, from their registry, with a model on loopback: a deny denies, what is allowed runs inside, a
hook without an answer lets nothing through, and a whole agent works inside the sandbox.

`scripts/agents` installs them, and `scripts/setup test` calls it; where it could not, these tests are skipped. Each
agent is shown to write outside without us. They take seconds of the processor to start, so a model asks the same one
for all that is tried in the same settings, and all agents run beside one another.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.hooks.mock_model import Model
from tests.looking import common_place

from ringfence.guard.installing import SITES

pytestmark = [pytest.mark.needs_agents, pytest.mark.needs_userns, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent
BIN = (ROOT / ".agents").resolve() / "bin"  # a link into a cache; below a hidden home only the cache is shown
PROGRAM = Path(sys.executable).parent / "ringfence"
AGENTS = ("claude", "codex", "gemini", "copilot", "opencode", "pi")
NOBODY = "http://127.0.0.1:1"
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
# What an agent keeps in its user's home and cannot do without: docs/hooks.md has the same list.
STATE = {
    "claude": (".claude/", ".claude/projects/", ".claude.json"),
    "codex": (".codex/", ".codex/sessions/"),
    "gemini": (".gemini/",),
    "copilot": (".copilot/", ".cache/copilot/"),
    "opencode": (".config/opencode/", ".local/share/opencode/", ".local/state/opencode/", ".cache/opencode/"),
    "pi": (".pi/", ".pi/agent/auth.json"),
}


class Ground:
    """A home with one agent's settings, a repository, and a place outside it."""

    def __init__(self, base: Path, agent: str) -> None:
        self.model = "mock"
        self.agent, self.home, self.work, self.outside = agent, base / "home", base / "w", base / "outside"
        for place in (self.home, self.work):
            place.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=self.work, check=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb"}
        # Nothing but loopback: nobody listens there, so what an agent fetches by the way fails at once.
        self.env |= {"HTTPS_PROXY": NOBODY, "HTTP_PROXY": NOBODY, "NO_PROXY": "127.0.0.1"}
        self.prepare()

    def install(self) -> "Ground":
        words: list[str | Path] = [PROGRAM, "install", self.agent, *AS_ROOT]
        subprocess.run(words, env=self.env, check=True, capture_output=True, timeout=60)
        return self

    def ask(
        self,
        *commands: str,
        prefix: Callable[[int], list[str]] = lambda port: [],
        before: Callable[[int], None] = lambda number: None,
    ) -> str:
        """Let the agent run with a model that asks for these commands in turn; all that the model was told of them."""
        model = Model(commands, before)
        words = getattr(self, f"_{self.agent}")(model.url)
        self.env["npm_config_registry"] = model.url  # OpenCode looks for the types of its extensions
        words = [*prefix(int(model.server_address[1])), *words]
        for _ in range(2):  # on a busy machine an agent may give up before it has come to anything
            done = subprocess.run(
                words, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=200,
            )  # fmt: skip
            if model.answered:
                break
        model.shutdown()
        model.server_close()
        answers = f"{self.agent} answered {model.answered} of {len(commands)}: {done.stdout!r} {done.stderr!r}"
        assert model.answered == len(commands), answers[:4000]
        return model.told

    def inside(self, port: int) -> list[str]:
        """`ringfence run` with what this agent needs of its home, and with the model's port."""
        allowed = []
        for name in STATE[self.agent]:
            place = self.home / name
            if name.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
            elif not place.exists():
                place.write_text("{}")
            allowed += ["--allow-read", str(place), "--allow-write", str(place)]
        names = [word for name in self.env if name not in ("PATH", "HOME", "TERM") for word in ("--allow-env", name)]
        agents = ["--allow-read", str(BIN.parent)]
        where = ["--workspace", str(self.work), "--allow-host", f"127.0.0.1:{port}"]
        return [str(PROGRAM), "run", *AS_ROOT, *where, *agents, *allowed, *names, "--"]

    def settings(self, name: str, text: str) -> None:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text)

    def prepare(self) -> None:
        """Settings that must be there before ours."""
        if self.agent == "gemini":
            self.settings(".gemini/settings.json", '{"security": {"auth": {"selectedType": "gemini-api-key"}}}')

    def _claude(self, url: str) -> list[str]:
        self.env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x", "DISABLE_AUTOUPDATER": "1"}
        self.env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return [f"{BIN}/claude", "-p", "do it", "--allowedTools", "Bash", "--model", "claude-sonnet-4-5"]

    def _codex(self, url: str) -> list[str]:
        provider = f'[model_providers.mock]\nname = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
        self.settings(".codex/config.toml", f'model = "{self.model}"\nmodel_provider = "mock"\n{provider}')
        free = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        return [f"{BIN}/codex", "exec", "--skip-git-repo-check", *free, "do it"]

    def _gemini(self, url: str) -> list[str]:
        self.env |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        self.env |= {"GEMINI_CLI_NO_RELAUNCH": "true"}
        return [f"{BIN}/gemini", "-p", "do it", "--yolo", "--model", "gemini-2.5-pro"]

    def _copilot(self, url: str) -> list[str]:
        self.env |= {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "gpt-4", "COPILOT_OFFLINE": "true"}
        return [f"{BIN}/copilot", "-p", "do it", "--allow-all-tools", "--allow-all-paths", "--no-auto-update"]

    def _opencode(self, url: str) -> list[str]:
        limits = {"context": 100000, "output": 1000}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "x"}}
        models = {self.model: {"name": "mock", "tool_call": True, "limit": limits}}
        given = {"autoupdate": False, "share": "disabled", "provider": {"mock": {**provider, "models": models}}}
        self.settings(".config/opencode/opencode.json", json.dumps({**given, "permission": "allow"}))
        self.env |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        self.settings(".cache/opencode/none.json", "{}")  # its own list of models takes a third of its start
        self.env["OPENCODE_MODELS_PATH"] = str(self.home / ".cache/opencode/none.json")
        return [f"{BIN}/opencode", "run", "--model", f"mock/{self.model}", "do it"]

    def _pi(self, url: str) -> list[str]:
        cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        model = {"id": "mock", "name": "mock", "reasoning": False, "input": ["text"], "cost": cost}
        model |= {"contextWindow": 100000, "maxTokens": 1000}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x", "models": [model]}
        self.settings(".pi/agent/models.json", json.dumps({"providers": {"mock": provider}}))
        return [f"{BIN}/pi", "-p", "do it", "--provider", "mock", "--model", "mock"]


def each(do: Callable[[Ground], object], agents: tuple[str, ...] = AGENTS) -> dict[str, object]:
    """What comes of the same with each agent."""
    with tempfile.TemporaryDirectory(dir=common_place(), ignore_cleanup_errors=True) as place:
        grounds = [Ground(Path(place, agent), agent) for agent in agents]
        with ThreadPoolExecutor(3) as pool:
            return dict(zip(agents, pool.map(do, grounds), strict=True))


def tried(ground: Ground) -> dict[str, bool]:
    """What an agent did of what its model asked for, by its shell and by tools that it alone has. To models of these
    names OpenCode and Copilot offer patches, the latter no JSON, and Copilot a tool called rg in place of grep."""
    ground.model = "gpt-5" if ground.agent == "opencode" else ground.model
    (ground.home / ".ssh").mkdir()
    (ground.home / ".ssh" / "id").write_text("deep secret\n")
    (ground.home / "picture.png").write_bytes(base64.b64decode(PICTURE))
    words = {"pattern": "deep", "paths": str(ground.home / ".ssh"), "output_mode": "content"}
    patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"
    further = {
        "codex": [json.dumps({"view_image": {"path": str(ground.home / "picture.png")}})],
        "copilot": [json.dumps({"rg": words}), patch.format(f"{ground.outside}-patch"), patch.format("patched")],
        "opencode": [patch.format(f"{ground.outside}-patch"), patch.format(ground.work / "patched")],
    }
    told = ground.ask(
        f"echo x > {ground.outside}",
        "cat /proc/1/comm > seen; wc -l < /proc/net/dev > devices",
        *further.get(ground.agent, []),
    )
    return {
        "writes outside": ground.outside.exists(),
        "patches outside": Path(f"{ground.outside}-patch").exists(),
        "patches inside": (ground.work / "patched").exists(),
        "searches": "deep secret" in told,
        "looks": "data:image/png" in told,
        "is told": "ringfence: it writes" in told and told.count("ringfence: ") > (ground.agent == "opencode"),
        "is on the host": (ground.work / "seen").read_text() == Path("/proc/1/comm").read_text(),
        # Two lines of title, and the loopback of its own.
        "has no network": (ground.work / "devices").read_text().strip() == "3",
    }


def facts(*true: str, **further: tuple[str, ...]) -> dict[str, object]:
    """For each agent which of what was tried is true, for all and for some."""
    names = ("writes outside", "patches outside", "patches inside", "searches", "looks", "is told", "is on the host")
    return {
        agent: {name: name in (*true, *further.get(agent, ())) for name in (*names, "has no network")}
        for agent in AGENTS
    }


def test_without_the_hook_every_agent_writes_outside() -> None:
    patches = ("patches outside", "patches inside")
    does = {"opencode": patches, "copilot": (*patches, "searches"), "codex": ("looks",)}
    alone = () if len(Path("/proc/net/dev").read_text().splitlines()) > 3 else ("has no network",)

    assert each(tried) == facts("writes outside", "is on the host", *alone, **does)


def test_a_deny_denies_and_the_model_is_told_why_and_what_is_allowed_runs_inside_the_sandbox() -> None:
    patches = {"opencode": ("patches inside",), "copilot": ("patches inside",)}

    assert each(lambda ground: tried(ground.install())) == facts("is told", "has no network", **patches)


def test_code_that_a_model_of_codex_writes_is_asked_about_in_each_call_it_makes() -> None:
    def writes(ground: Ground) -> tuple[bool, bool, bool]:
        ground.model = "gpt-5.6-sol"
        patch = f"*** Begin Patch\n*** Add File: {ground.outside}-patch\n+x\n*** End Patch"
        ground.ask(f"echo x > {ground.outside}", patch, "cat /proc/1/comm > seen")
        on_host = (ground.work / "seen").read_text() == Path("/proc/1/comm").read_text()
        return ground.outside.exists(), Path(f"{ground.outside}-patch").exists(), on_host

    assert each(writes, ("codex",)) == {"codex": (True, True, True)}
    assert each(lambda ground: writes(ground.install()), ("codex",)) == {"codex": (False, False, False)}


def with_odd_hook(ground: Ground, does: tuple[str, ...], *others: tuple[str, str]) -> list[str]:
    """Of the odd things that a hook does instead of answering, those at which an agent writes outside."""
    odd = ground.home / "odd"

    def change(number: int) -> None:
        new = ground.home / "new"
        new.write_text(f"#!/bin/sh\n{does[number]}\n")
        new.chmod(0o755)
        new.replace(odd)

    file = ground.install().home / SITES[ground.agent].user
    text = file.read_text()
    for one, other in ((str(PROGRAM), str(odd)), ("KILL 9", "KILL 2"), ("10000", "2000"), *others):
        text = text.replace(one, other)
    file.write_text(re.sub(r'("timeout": ?)15\b', r"\g<1>3", text))  # less patience than we have
    ground.ask(*(f"echo x > {ground.outside}{number}" for number in range(len(does))), before=change)
    return [one for number, one in enumerate(does) if Path(f"{ground.outside}{number}").exists()]


def test_a_hook_that_gives_no_answer_lets_nothing_through() -> None:
    """Nor, where agents would let it, one that fails or is gone."""
    guarded = dict.fromkeys(("codex", "gemini"), ("exit 1", "rm $0; exec $0"))

    def through(ground: Ground) -> list[str]:
        return with_odd_hook(ground, ("kill -9 $$", "sleep 60", *guarded.get(ground.agent, ())))

    assert each(through) == {agent: [] for agent in AGENTS}


def test_without_the_shell_around_the_hook_codex_and_gemini_let_the_call_through() -> None:
    guarded = ("codex", "gemini")
    bare = ('" >&2; exit 2', '" >&2; exit 1')  # the shell says what its hook says

    found = each(lambda ground: with_odd_hook(ground, ("kill -9 $$",), bare), guarded)
    assert found == {agent: ["kill -9 $$"] for agent in guarded}


def test_settings_with_a_comment_are_none_to_claude_codex_and_copilot_and_status_says_so() -> None:
    """So their hook is not asked; Gemini reads comments."""

    def commented(ground: Ground) -> tuple[bool, int]:
        file = ground.install().home / SITES[ground.agent].user
        file.write_text("// mine\n" + file.read_text())
        ground.ask(f"echo x > {ground.outside}")
        said = subprocess.run([PROGRAM, "status", ground.agent], env=ground.env, capture_output=True, timeout=60)
        return ground.outside.exists(), said.returncode

    agents = ("claude", "codex", "copilot", "gemini")
    assert each(commented, agents) == {agent: (False, 0) if agent == "gemini" else (True, 1) for agent in agents}


def test_a_whole_agent_works_inside_and_cannot_write_outside() -> None:
    host = Path("/proc/1/comm").read_text()

    def works(ground: Ground) -> tuple[bool, bool, bool]:
        told = ground.ask(f"cat /proc/1/comm > made; echo x > {ground.outside}", prefix=ground.inside)
        made = ground.work / "made"
        # The warden is called by the descriptor that it was executed by.
        is_inside = made.exists() and made.read_text().strip().isdigit()
        return is_inside, ground.outside.exists(), "read-only file system" in told.lower()  # zsh says it so

    assert each(works) == dict.fromkeys(AGENTS, (True, False, True))
    assert not host.strip().isdigit()


PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="  # of one dot
)
ASKS = """
import(process.argv[1]).then(async ({ Ringfence }) => {
  const hooks = await Ringfence({ directory: process.argv[2] });
  const output = { args: { command: "touch x", workdir: process.argv[3] } };
  try {
    await hooks["tool.execute.before"]({ tool: "bash" }, output);
    console.log(output.args.command);
  } catch (error) {
    console.log("no: " + error.message);
  }
});
"""


def test_where_a_call_of_opencode_begins_does_not_choose_the_workspace() -> None:
    """The extension told the hook that the agent itself stood there, and the sandbox was made around that place."""
    with tempfile.TemporaryDirectory(dir=common_place()) as place:
        ground = Ground(Path(place).resolve(), "opencode").install()
        subprocess.run(["git", "init", "-q", ground.outside], check=True)  # another project of the same user
        (ground.work / "sub").mkdir()
        extension = ground.home / "ringfence.mjs"  # by its name node knows what it is
        extension.write_bytes((ground.home / ".config/opencode/plugin/ringfence.js").read_bytes())
        words = [str(BIN / "node"), "-e", ASKS, str(extension), str(ground.work)]
        said = [
            subprocess.run([*words, str(begins)], env=ground.env, capture_output=True, text=True, timeout=60).stdout
            for begins in (ground.outside, "..", "sub", ground.work)
        ]

    assert [text.startswith("no: ") for text in said] == [True, True, False, False]
    assert all(f"--workspace {ground.work} " in text for text in said[2:])
