"""The agents themselves, from their registry, with a model on loopback: a deny denies, and what is allowed runs inside.

`scripts/agents` installs them; without it these tests are skipped. Each is shown to write outside without our hook.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hooks.mock_model import Model

pytestmark = [pytest.mark.needs_agents, pytest.mark.needs_userns, pytest.mark.slow, pytest.mark.timeout(120)]

ROOT = Path(__file__).parent.parent.parent
BIN = ROOT / ".agents" / "bin"
PROGRAM = Path(sys.executable).parent / "ringfence"
AGENTS = ("claude", "codex", "gemini", "copilot", "opencode", "pi")
NOBODY = "http://127.0.0.1:1"
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


class Ground:
    """A home with one agent's settings, a repository, and a place outside it."""

    def __init__(self, base: Path, agent: str) -> None:
        self.agent, self.home, self.work, self.outside = agent, base / "home", base / "w", base / "outside"
        for place in (self.home, self.work):
            place.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.work, check=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb"}
        # Nothing but loopback: nobody listens there, so what an agent fetches by the way fails at once.
        self.env |= {
            "HTTPS_PROXY": NOBODY,
            "HTTP_PROXY": NOBODY,
            "NO_PROXY": "127.0.0.1",
            "npm_config_registry": NOBODY,
        }

    def install(self) -> None:
        words: list[str | Path] = [PROGRAM, "install", self.agent, *AS_ROOT]
        subprocess.run(words, env=self.env, check=True, capture_output=True, timeout=60)

    def ask(self, command: str) -> str:
        """Let the agent run with a model that asks for one command; what the model was told of it."""
        model = Model(command)
        words = getattr(self, f"_{self.agent}")(model.url)
        subprocess.run(
            words, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False
        )
        model.shutdown()
        model.server_close()
        assert model.results, "the agent did not come back with a result"
        return model.results[-1]

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
        self.settings(".codex/config.toml", f'model = "mock"\nmodel_provider = "mock"\n{provider}')
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
        models = {"mock": {"name": "mock", "tool_call": True, "limit": limits}}
        given = {"autoupdate": False, "share": "disabled", "provider": {"mock": {**provider, "models": models}}}
        self.settings(".config/opencode/opencode.json", json.dumps({**given, "permission": "allow"}))
        self.env |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return [f"{BIN}/opencode", "run", "--model", "mock/mock", "do it"]

    def _pi(self, url: str) -> list[str]:
        cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        model = {"id": "mock", "name": "mock", "reasoning": False, "input": ["text"], "cost": cost}
        model |= {"contextWindow": 100000, "maxTokens": 1000}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x", "models": [model]}
        self.settings(".pi/agent/models.json", json.dumps({"providers": {"mock": provider}}))
        return [f"{BIN}/pi", "-p", "do it", "--provider", "mock", "--model", "mock"]


@pytest.fixture(params=AGENTS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(dir=ROOT, ignore_cleanup_errors=True) as place:
        found = Ground(Path(place), request.param)
        found.prepare()
        yield found


def test_without_the_hook_the_agent_writes_outside(ground: Ground) -> None:
    ground.ask(f"echo x > {ground.outside}")

    assert ground.outside.exists()


def test_a_deny_denies_and_the_model_is_told_why(ground: Ground) -> None:
    ground.install()
    told = ground.ask(f"echo x > {ground.outside}")

    assert (ground.outside.exists(), "ringfence: it writes" in told) == (False, True)


def test_what_is_allowed_runs_inside_the_sandbox(ground: Ground) -> None:
    ground.install()
    ground.ask("cat /proc/1/comm > seen; wc -l < /proc/net/dev > devices")
    host = Path("/proc/1/comm").read_text()

    assert (ground.work / "seen").read_text() != host
    assert int((ground.work / "devices").read_text()) == 3  # two lines of title and the loopback of its own


def test_a_hook_that_is_killed_lets_nothing_through_where_the_agent_can_prevent_it(ground: Ground) -> None:
    ground.install()
    killed = ground.home / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    for file in ground.home.rglob("*"):
        if file.is_file() and file.suffix in (".json", ".ts") and str(PROGRAM) in file.read_text():
            file.write_text(file.read_text().replace(str(PROGRAM), str(killed)))
    ground.ask(f"echo x > {ground.outside}")

    assert ground.outside.exists() is (ground.agent in ("codex", "gemini"))  # docs/hooks.md says so
