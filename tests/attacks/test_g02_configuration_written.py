"""G2, G3, G4: the repository's configuration names programs that git runs: monitors, hooks, filters, helpers."""

from tests.attacks.conftest import Field, with_git

PROGRAM = """
KEYS = ("core.fsmonitor", "core.hooksPath", "include.path", "filter.x.clean", "diff.external", "core.sshCommand",
        "core.pager", "alias.x", "credential.helper", "gpg.program", "core.editor", "extensions.worktreeConfig")
for key in KEYS:
    attempt(key, lambda: sh("git config %s ./evil" % key))
attempt("by hand", lambda: write(".git/config", flags=os.O_APPEND))
attempt("by the lock", lambda: (write(".git/config.lock"), os.rename(".git/config.lock", ".git/config")))
attempt("by a link", lambda: (os.unlink(".git/config"), os.symlink("../src/c", ".git/config")))
"""


def test_the_configuration_is_not_written(field: Field) -> None:
    field.repels(PROGRAM, with_git)
