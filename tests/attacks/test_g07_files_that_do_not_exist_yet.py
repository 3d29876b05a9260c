"""G7, G8, F22: .git/commondir and config.worktree redirect git, .mcp.json and its kin start programs.

No mount holds a name that does not exist: the warden makes the command's names, and does not make these.
"""

from typing import Any

import pytest
from tests.attacks.conftest import ANSWERED, Field, Ground, with_git

NAMES = (
    ".git/commondir .git/config.worktree .mcp.json .envrc .bashrc .vscode/tasks.json .claude/settings.json"
    " .cursor/mcp.json .ringfence/policy.json .gitmodules .idea/workspace.xml .hg/sharedpath .hg/hgrc-not-shared .vimrc"
    " .jj/workspace-config.toml"
    " .vim/coc-settings.json .helix/languages.toml .clinerules/hooks/PreToolUse"
    " .github/copilot/settings.json .github/mcp.json .github/lsp.json .github/extensions/x/extension.mjs"
    " .agents/skills/x/SKILL.md .github/agents/x.agent.md .tool-versions mise/conf.d/x.toml .config/mise/config.toml"
    " .github/github-app.yml mise.toml .mise.toml .openhands/hooks.json .amp/settings.json .nvimrc"
    " .git/lazygit.yml .lazygit.yml .git/glab-cli/config.yml .devin/hooks.v1.json .codebuddy/settings.json"
    " .iflow/settings.json .tabnine/agent/settings.json .mux/init .vibe/config.toml .warp/.mcp.json"
    " .kimi-code/mcp.json .crush/crush.json .jj/repo/store/git/commondir .jj/repo/store/git_target"
    " rust-toolchain rust-toolchain.toml tui.json tui.jsonc .miserc.local.toml .prototools .git/sl/config .irbrc"
    " .pryrc .iex.exs .ocamlinit .ghci .octaverc"
).split()
PROGRAM = """
for name in NAMES:
    attempt(name, lambda: (os.makedirs(os.path.dirname(WS + "/" + name), exist_ok=True), write(name)))
"""


@ANSWERED
@pytest.mark.parametrize("names", [NAMES, [".jj/repo"]], ids=["many", "a file in a directory's place"])
def test_a_name_that_runs_code_later_is_not_made_or_it_is_said(field: Field, names: list[str]) -> None:
    field.repels(PROGRAM.replace("NAMES", repr(names)), with_git)


@ANSWERED
def test_nor_is_one_where_the_command_begins_or_on_the_way_there(field: Field) -> None:
    """An agent that was started in a directory of the project has its settings there, and its hooks at once."""
    program = """
os.chdir(WS + "/packages/app")
for name in (".claude", "../.codex", ".vscode"):
    attempt(name, lambda: os.mkdir(name))
"""

    def prepare(ground: Ground) -> list[str]:
        (ground.workspace / "packages/app").mkdir(parents=True)
        return with_git(ground)

    def begins(ground: Ground) -> dict[str, Any]:
        return {"cwd": ground.workspace / "packages/app"}

    field.repels(program, prepare, denied=begins)
