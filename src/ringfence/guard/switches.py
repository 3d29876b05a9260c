"""By what an agent's own settings make no use of a hook that is installed. Pure: a text in, the word for it out.

A hook that stands in its file and answers as it should is asked nothing then, and nobody is told by the agent.
"""

import tomllib

import msgspec

from . import jsonc
from .installing import plain

# Settings below a home, below a project, and of the whole machine; an agent goes by each of them.
FILES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "claude": (
        (".claude/settings.json",),
        (".claude/settings.json", ".claude/settings.local.json"),
        ("/etc/claude-code/managed-settings.json",),
    ),
    "codex": (
        (".codex/config.toml",),
        (".codex/config.toml",),
        ("/etc/codex/config.toml", "/etc/codex/requirements.toml"),
    ),
    "gemini": ((".gemini/settings.json",), (".gemini/settings.json",), ("/etc/gemini-cli/settings.json",)),
    "copilot": ((".copilot/hooks/ringfence.json",), (".github/hooks/ringfence.json",), ()),
    "pi": ((".pi/agent/settings.json",), (".pi/settings.json",), ()),
}
VARIABLES = {"claude": "CLAUDE_CODE_SIMPLE", "opencode": "OPENCODE_PURE"}  # with these it starts without any


def switched_off(agent: str, text: str) -> str:
    """The word in one of an agent's settings by which it asks no hook, or not ours; nothing where there is none."""
    try:
        found: object = (
            tomllib.loads(text) if agent == "codex" else msgspec.json.decode(plain(text)) if text.strip() else {}
        )
    except (jsonc.NotSettings, msgspec.MsgspecError, tomllib.TOMLDecodeError):
        return "what cannot be read"
    if not isinstance(found, dict):
        return "what cannot be read"
    if agent == "codex":
        features = _object(found, "features")
        off = [f"features.{name}" for name in ("hooks", "codex_hooks") if features.get(name) is False]
        return next(iter(off), "allow_managed_hooks_only" if found.get("allow_managed_hooks_only") is True else "")
    if agent == "gemini":
        given = _object(found, "hooksConfig")
        names = given.get("disabled")
        named = isinstance(names, list) and any("ringfence" in str(name) for name in names)
        return "hooksConfig.enabled" if given.get("enabled") is False else "hooksConfig.disabled" if named else ""
    if agent == "pi":
        listed = found.get("extensions")
        words = [str(one) for one in listed] if isinstance(listed, list) else []
        without = any(word[:1] in "-!" and ("ringfence" in word or "*" in word) for word in words if word)
        return "extensions" if without else ""
    switches = ("disableAllHooks", "allowManagedHooksOnly") if agent == "claude" else ("disableAllHooks",)
    return next((name for name in switches if found.get(name) is True), "")


def _object(found: dict[str, object], name: str) -> dict[str, object]:
    inner = found.get(name)
    return inner if isinstance(inner, dict) else {}
