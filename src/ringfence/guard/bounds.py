"""What the guard is told of the world: where the worktree is, who decides, and how to look at the disk.

The room itself looks at nothing. Every function here is handed in, so that a test can make a world of its own.
"""

from collections.abc import Callable

import msgspec

from ..model import Access, Decision
from .patterns import lazy


class Bounds(msgspec.Struct, frozen=True):
    """One worktree, its judge, and eyes."""

    root: str  # canonical
    start: str  # where a command begins: the root, or a directory inside it
    home: str
    decide: Callable[[Access, str], Decision]  # over canonical paths
    resolve: Callable[[str], str]  # an absolute path with every link followed, as far as it exists
    is_directory: Callable[[str], bool]
    is_link: Callable[[str], bool]
    match: Callable[
        [str, str], list[str] | None
    ]  # the names a pattern has in a directory; None when there are too many
    leaks: Callable[[str], bool]  # whether a link below a directory leads to where nobody may write
    hides: Callable[[str], bool]  # whether something below a directory may not be read
    veils: Callable[[str], bool]  # whether what a pattern stands for may not be read, by what is wild in it
    repository: Callable[[str], str]  # the git directory that a directory belongs to, or nothing
    skills: Callable[[], str] = lambda: ""  # a place deeper in the worktree that has some, or may have
    reads_free: bool = False  # reading is allowed everywhere, so that what is read need not be known
    held: bool = False  # the line will run inside the sandbox, which holds what it reads and what it starts

    def has(self, path: str) -> bool:
        """Whether a canonical path is the worktree itself, or lies in it."""
        return (path + "/").startswith(self.root.rstrip("/") + "/")


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found out about a call: what is done to which path, and what the judge says."""

    verdict: int
    reason: str
    access: str = ""  # read, write, enter; empty for a doubt
    path: str = ""


# What agents, editors and shells run, or let others run, outside of any sandbox: what the built-in policy protects in a
# workspace, and for agents some names of theirs that it lets them write elsewhere.
_RUN_LATER = lazy(
    r"(?i)/(?:\.ringfence|\.(?:claude|codex|gemini|cursor|pi|opencode)/(?:hooks?|plugins?|extensions|agents|commands|skills"
    r"|tools?|rules|policies)"
    r"|\.(?:claude|codex|gemini|cursor|pi|opencode)/[^/]*(?:\.(?:jsonc?|toml|env|sh|py|[cm]?[jt]s|sb)|sandbox[^/]*)|\.mcp\.json"
    r"|\.github/(?:hooks|copilot|extensions|agents|skills|mcp\.json|lsp\.json|github-app\.yml)|\.envrc"
    r"|(?:\.config/|\.)?mise(?:\.[^/]+)?\.toml|\.mise|\.config/mise|mise/(?:config(?:\.[^/]+)?\.toml|conf\.d)|\.rvmrc"
    r"|rust-toolchain(?:\.toml)?|\.prototools|\.(?:irb|pry|octave)rc|\.iex\.exs|\.ocamlinit|\.ghci"
    r"|(?:\.|\.config/)miserc(?:\.local)?\.toml|\.tool-versions|\.R(?:profile|environ)|\.dir-locals(?:-2)?\.el|\.ycm_extra_conf\.py"
    r"|\.(?:vscode|idea|zed|fleet|helix|devcontainer(?:\.json)?|n?vim(?:\.lua|rc)?|g?vimrc|exrc)"
    r"|\.(?:agents?|run|kilo|qoder|grok|devin|codebuddy|iflow|tabnine|mux|vibe|warp|kimi-code|crushrc)"
    r"|\.(?:windsurf|kiro|qwen|factory|augment|openhands|amp|trae|amazonq|roo|kilocode|junie|continue)|\.clinerules/hooks"
    r"|opencode\.jsonc?|(?:kilo|tui)\.jsonc?|(?:\.crush/)?\.?crush\.json|\.aider\.conf\.yml"
    r"|\.git(?:modules|config)|\.lfsconfig|\.hg/(?:hgrc[^/]*|sharedpath)|\.sl/(?:config|sharedpath)|\.ripgreprc"
    r"|\.jj/(?:(?:repo/config|workspace-config)\.toml|repo(?:/store/git_target)?\Z|repo/store/git)|\.lazygit\.yml"
    r"|\.bash(?:rc|_(?:profile|login|logout|aliases))|\.profile|\.z(?:shrc|profile|shenv|login|logout))(?:/|\Z)"
    r"|/\.(?:claude|codex|gemini|cursor|pi|opencode)\Z"
)


def runs_later(path: str) -> str:
    """Why a path that is written is more than a file, or nothing."""
    if "/.git/" in path.lower() + "/":
        return "which is git's own: it says what git will run"
    if path.endswith("/HEAD"):
        return "by which git takes a directory for a repository, and runs what that names"
    may = "/." in path or "/mise" in path or "/rust-" in path or path.endswith((".json", ".jsonc"))
    return "which says what an agent, an editor or a shell will run" if may and _RUN_LATER.search(path) else ""
