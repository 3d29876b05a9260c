"""G15, E2: variables that make git, a shell or an interpreter run what they name."""

import pytest
from tests.attacks.conftest import Field, with_git

HOSTILE = (
    "GIT_DIR GIT_WORK_TREE GIT_EXEC_PATH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_ASKPASS"
    " GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0 GIT_CONFIG_GLOBAL GIT_PROXY_COMMAND GIT_TEMPLATE_DIR"
    " LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV ENV PROMPT_COMMAND PS4 BASH_FUNC_ls%% PERL5OPT PERL5LIB RUBYOPT"
    " NODE_OPTIONS NODE_PATH PYTHONSTARTUP PYTHONPATH PYTHONHOME JAVA_TOOL_OPTIONS LESSOPEN PAGER BROWSER"
).split()
SECRETS = (
    "AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GITHUB_TOKEN GH_TOKEN NPM_TOKEN ANTHROPIC_API_KEY OPENAI_API_KEY"
    " DATABASE_URL PGPASSWORD SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS GPG_AGENT_INFO KUBECONFIG VAULT_TOKEN MY_SECRET"
    " SENTRY_DSN AZURE_CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS HTTP_PROXY WAYLAND_DISPLAY DISPLAY XAUTHORITY"
    " LC_TOKEN"
).split()


@pytest.mark.parametrize("names", [HOSTILE, SECRETS], ids=["that run code", "that hold secrets"])
def test_variables_do_not_pass(field: Field, names: list[str]) -> None:
    ground = field.ground()
    with_git(ground)
    ground.own()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(ground.home), "LANG": "C.UTF-8", **dict.fromkeys(names, "evil")}

    outcome = field.run(ground, ["env"], environ=environ)

    passed = {line.partition("=")[0] for line in (outcome.stdout or b"").decode().splitlines()}
    assert passed & set(names) == set()
    assert {"PATH", "HOME", "LANG", "TMPDIR", "PWD"} <= passed, outcome


def test_a_variable_passes_when_it_is_named_and_only_it(field: Field) -> None:
    ground = field.ground()
    ground.own()
    environ = {"PATH": "/usr/bin:/bin", "NPM_TOKEN": "x", "NPM_CONFIG_A": "y", "GH_TOKEN": "z"}

    outcome = field.run(ground, ["env"], environ=environ, allow_env=("NPM_TOKEN", "NPM_*", "GH_*"))

    passed = {line.partition("=")[0] for line in (outcome.stdout or b"").decode().splitlines()}
    assert passed & environ.keys() == {"PATH", "NPM_TOKEN", "NPM_CONFIG_A"}
