"""Which variables of the caller's environment reach the command: an allow-list, never a deny-list.

A name that carries a secret or makes a loader or interpreter run code passes only when the policy names it exactly,
whatever pattern would let it through.
"""

from ..model import Environment

# Who and where one is, the terminal, the locale, where toolchains live, and the certificates that a network's own proxy
# needs: without them every connection through it would fail that works outside.
ALLOWED = frozenset(
    """HOME USER LOGNAME SHELL PATH PWD LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR
    CLICOLOR_FORCE EDITOR VISUAL CI DEBIAN_FRONTEND SOURCE_DATE_EPOCH HOSTNAME HOSTTYPE MACHTYPE OSTYPE
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GOPATH GOROOT GOFLAGS GOCACHE GOMODCACHE JAVA_HOME ANDROID_HOME NVM_DIR
    NVM_BIN VOLTA_HOME PYENV_ROOT PYENV_VERSION RBENV_ROOT ASDF_DIR ASDF_DATA_DIR SDKMAN_DIR BUN_INSTALL DENO_DIR
    PNPM_HOME VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV UV_CACHE_DIR PIP_CACHE_DIR NODE_ENV PYTHONUNBUFFERED
    PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING RUST_BACKTRACE RUST_LOG CMAKE_GENERATOR MAKEFLAGS
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME
    SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    PIP_CERT CARGO_HTTP_CAINFO""".split()
)
ALLOWED_PREFIXES = ("LC_",)

# Pieces of names that mean a secret.
SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "AUTH", "COOKIE", "SESSION")
SECRET_ENDS = ("_KEY", "_PAT", "_PASS", "_PWD", "_DSN", "_URL", "_URI")
SECRET_STARTS = ("AWS_", "AZURE_", "GOOGLE_", "GCP_", "SSH_", "GPG_", "DBUS_", "VAULT_", "KUBE")

# Names that make a loader, a shell or an interpreter run what they point at.
CODE_STARTS = ("LD_", "DYLD_", "GLIBC_", "BASH_FUNC_", "GIT_CONFIG")
CODE = frozenset(
    """BASH_ENV ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS4 IFS CDPATH GLOBIGNORE NODE_OPTIONS NODE_PATH
    NODE_REPL_EXTERNAL_MODULE ELECTRON_RUN_AS_NODE PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT
    PYTHONWARNINGS PYTHONUSERBASE PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS
    _JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR GCONV_PATH LOCPATH
    NLSPATH HOSTALIASES RESOLV_HOST_CONF RES_OPTIONS TERMINFO TERMINFO_DIRS GIT_DIR GIT_WORK_TREE GIT_EXEC_PATH
    GIT_SSH GIT_SSH_COMMAND GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_EXTERNAL_DIFF GIT_TEMPLATE_DIR
    GIT_PROXY_COMMAND PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER RUSTC_WRAPPER RUSTC CARGO_BUILD_RUSTC_WRAPPER
    CC CXX LDFLAGS""".split()
)


def is_delicate(name: str) -> bool:
    """Whether a name must be said exactly to pass."""
    upper = name.upper()
    return (
        upper in CODE
        or upper.startswith(CODE_STARTS + SECRET_STARTS)
        or upper.endswith(SECRET_ENDS)
        or any(piece in upper for piece in SECRET)
    )


def passes(name: str, environment: Environment) -> bool:
    """Whether a variable reaches the command."""
    if name in ALLOWED or name in environment.allow:
        return True
    patterns = ALLOWED_PREFIXES + tuple(entry[:-1] for entry in environment.allow if entry.endswith("*"))
    return name.startswith(patterns) and not is_delicate(name)


def scrubbed(environ: dict[str, str], environment: Environment, fixed: dict[str, str]) -> dict[str, str]:
    """The command's environment; `fixed` are the values that the plan itself decides."""
    kept = {name: value for name, value in environ.items() if passes(name, environment)}
    return kept | fixed | environment.set
