"""The names behind the built-in policy, each with a few words of why. Data only; `defaults` turns them into rules.

Names in a home or a workspace are relative to it. A table is text, a line per row: the path, then the reason.
"""


def rows(text: str) -> tuple[tuple[str, str], ...]:
    """The rows of a table: a path without spaces, and what the rest of the line says of it."""
    found = []
    for line in text.strip().splitlines():
        path, _, why = line.strip().partition(" ")
        found.append((path, why.strip()))
    return tuple(found)


def _listed(text: str, why: str) -> tuple[tuple[str, str], ...]:
    return tuple((path, why) for path in text.split())


CLOSED = rows("""
    /home              people's homes
    /root              root's home
    /run               sockets and run-time secrets of services
    /mnt               other people's disks
    /media             other people's disks
    /lost+found        what a file system check found
    /boot              boot loader passwords
    /srv               other tenants' data; a workspace in it is open all the same
    /var/spool         mail, print and cron jobs
    /var/mail          mail
    /var/log           logs hold tokens
    /var/backups       copies of /etc/shadow and kin
    /var/crash         memory of crashed programs
    /var/cache/private caches of services
""")
"""Places that hold other people's things. /opt, /nix and /snap are software, and stay readable."""

OPENED = rows("""
    /run/systemd/resolve/resolv.conf      name resolution
    /run/systemd/resolve/stub-resolv.conf name resolution
    /run/resolvconf/resolv.conf           name resolution
    /run/NetworkManager/resolv.conf       name resolution
    /run/NetworkManager/no-stub-resolv.conf name resolution
    /mnt/wsl/resolv.conf                  name resolution
    /run/current-system                   NixOS
    /run/opengl-driver                    NixOS
    /run/opengl-driver-32                 NixOS
""")
"""What programs need of the closed places. Files, not directories: sockets of services lie beside them."""

TOOLS = (
    *_listed(
        """
        .cargo .rustup .local/bin .local/lib .nvm .nodenv .volta .bun .deno n .npm .npm-global .npm-packages
        .yarn .config/yarn/global .local/share/pnpm .local/share/fnm .pyenv .poetry .rye .pixi .virtualenvs
        .conda/envs .conda/pkgs miniconda3 anaconda3 miniforge3 mambaforge micromamba .local/share/mamba
        .local/share/uv .local/share/pipx .local/pipx .local/share/virtualenvs .local/share/hatch .local/share/pdm
        .local/share/pypoetry .local/share/mise .local/share/rtx .asdf .rbenv .rvm .gem/ruby .local/share/gem/ruby
        .sdkman .jenv .jabba .jbang .goenv go/bin go/pkg .phpenv .plenv .perlbrew perl5 .tfenv .ghcup .stack
        .cabal/bin .cabal/packages .cabal/store .opam .elan .julia .juliaup .mix .hex/packages .kerl .kiex
        .dotnet .nuget/packages .pub-cache .fvm .konan .swiftly Android/Sdk .foundry/bin .svm .wasmtime
        .wasmer/bin .krew .nix-profile .nix-defexpr .local/state/nix/profiles .guix-profile .linuxbrew
        .local/share/claude/versions .claude/local .opencode/bin
        """,
        "a toolchain",
    ),
    *_listed(
        """
        .m2/repository .m2/wrapper .gradle/caches .gradle/wrapper .gradle/jdks .gradle/native .ivy2/cache .ivy2/local
        .sbt/boot .sbt/launchers .ccache .conan/data .conan2/p .composer/vendor .cpanm .bundle/cache
        .cache/pip .cache/uv .cache/pypoetry .cache/pdm .cache/hatch .cache/virtualenv .cache/pre-commit .cache/ruff
        .cache/black .cache/mypy .cache/rattler .cache/yarn .cache/pnpm .cache/npm .cache/node .cache/node-gyp
        .cache/deno .cache/bun .cache/typescript .cache/electron .cache/electron-builder .cache/ms-playwright
        .cache/puppeteer .cache/Cypress .cache/go-build .cache/golangci-lint .cache/gopls .cache/bazel
        .cache/bazelisk .cache/ccache .cache/sccache .cache/zig .cache/coursier .cache/composer .cache/mise
        .cache/nix .cache/org.swift.swiftpm .cache/rebar3 .cache/dune .cache/buck .cache/meson .cache/vcpkg
        """,
        "a cache of packages",
    ),
    *_listed(".gitconfig .config/git/config .config/git/attributes .config/git/ignore", "the git identity"),
)
"""What may be read in a home. `go/src` and the rest of `.cache` are other projects and browsers, so not whole."""

PROTECTED = rows("""
    .git/hooks               git runs them
    .git/config              git runs what it names
    .git/config.worktree     git runs what it names
    .git/commondir           says where git finds its configuration
    .git/info/attributes     names filters that git runs
    .git/modules             submodules' hooks and configuration
    .git/objects/info/alternates  git takes what lies there for its own, and would push it
    .git/remotes             says where git fetches and pushes, if its configuration does not
    .git/branches            says where git fetches and pushes, if its configuration does not
    .git/gitweb              `git instaweb` runs it
    .git/pid                 `git instaweb` ends the process that it names
    .git/lazygit.yml         lazygit runs what it names
    .lazygit.yml             lazygit runs what it names, in repositories below it
    .git/glab-cli            glab runs what it names
    .git/sl/config           Sapling runs what it names
    HEAD                     without its .git git takes the directory itself for a repository
    .gitmodules              says where submodules come from
    .lfsconfig               says where large files are sent
    .gitconfig               git runs what it names
    .hg/hgrc                 Mercurial runs what it names
    .hg/hgrc-not-shared      Mercurial runs what it names
    .hg/sharedpath           says where Mercurial finds its configuration
    .sl/config               Sapling runs what it names
    .sl/sharedpath           says where Sapling finds its configuration
    .jj/repo/config.toml     Jujutsu runs what it names
    .jj/workspace-config.toml Jujutsu runs what it names
    .jj/repo/store/git_target says where Jujutsu finds git's repository
    .jj/repo/store/git/config Jujutsu has git run what it names
    .jj/repo/store/git/commondir says where git finds its configuration
    .jj/repo/store/git/hooks git runs them
    .bashrc                  shells run it
    .bash_profile            shells run it
    .bash_login              shells run it
    .bash_logout             shells run it
    .bash_aliases            shells run it
    .profile                 shells run it
    .zshrc                   shells run it
    .zprofile                shells run it
    .zshenv                  shells run it
    .zlogin                  shells run it
    .zlogout                 shells run it
    .envrc                   direnv runs it
    mise.toml                mise runs what it names
    .mise.toml               mise runs what it names
    mise.local.toml          mise runs what it names
    .mise.local.toml         mise runs what it names
    .mise                    mise runs what it names
    mise/config.toml         mise runs what it names
    mise/config.local.toml   mise runs what it names
    mise/conf.d              mise runs what it names
    .config/mise             mise runs what it names
    .config/mise.toml        mise runs what it names
    .config/mise.local.toml  mise runs what it names
    .miserc.toml             says which files mise reads
    .miserc.local.toml       says which files mise reads
    .config/miserc.toml      says which files mise reads
    .tool-versions           mise runs what it names
    .prototools              proto runs the plugins it names
    .rvmrc                   rvm runs it
    rust-toolchain           prompts run what it names
    rust-toolchain.toml      prompts run what it names
    .Rprofile                R runs it, and so do editors that open the directory
    .Renviron                says what R runs when it starts
    .irbrc                   irb runs it
    .pryrc                   pry runs it
    .iex.exs                 iex runs it
    .ocamlinit               ocaml runs it
    .ghci                    ghci runs it, and so do editors that open the directory
    .octaverc                octave runs it
    .ripgreprc               names a program that ripgrep runs
    .mcp.json                agents start the servers it names
    .vscode                  editors run its tasks
    .idea                    editors run its tasks
    .run                     editors run its tasks
    .zed                     editors run its tasks
    .fleet                   editors run its tasks
    .devcontainer            editors run its commands, on the host too
    .devcontainer.json       editors run its commands, on the host too
    .exrc                    vim runs it
    .vimrc                   vim runs it
    .gvimrc                  vim runs it
    .vim                     vim starts the servers that it names
    .helix                   editors run its tasks
    .dir-locals.el           Emacs runs what it names
    .dir-locals-2.el         Emacs runs what it names
    .ycm_extra_conf.py       editors run it
    .nvim.lua                neovim runs it
    .nvimrc                  neovim runs it
    .agents                  agents run what it names, and are given leave by it
    .agent                   agents run what it names, and are given leave by it
    .claude                  agents run its hooks
    .codex                   agents run its hooks
    .gemini                  agents run its hooks
    .cursor                  agents run its hooks
    .opencode                agents run its hooks
    .windsurf                agents run its hooks
    .kiro                    agents run its hooks
    .qwen                    agents run its hooks
    .factory                 agents run its hooks
    .github/hooks            agents run its hooks
    .github/copilot          agents run its hooks
    .github/extensions       agents run what is in it
    .github/agents           agents start the servers it names
    .github/skills           agents run what it names, and are given leave by it
    .github/github-app.yml   agents run what it names
    .github/mcp.json         agents start the servers it names
    .github/lsp.json         agents start the servers it names
    .clinerules/hooks        agents run its hooks
    .augment                 agents run its hooks
    .openhands               agents run its hooks
    .amp                     agents start the servers it names
    .trae                    agents start the servers it names
    .amazonq                 agents start the servers it names
    .roo                     agents start the servers it names
    .kilocode                agents start the servers it names
    .kilo                    agents start the servers it names
    .qoder                   agents run its hooks
    .grok                    agents start the servers it names
    .junie                   agents start the servers it names
    .continue                agents start the servers it names
    opencode.json            agents start the servers it names
    opencode.jsonc           agents start the servers it names
    tui.json                 agents run the plugins it names
    tui.jsonc                agents run the plugins it names
    kilo.json                agents start the servers it names
    kilo.jsonc               agents start the servers it names
    crush.json               agents start the servers it names
    .crush.json              agents start the servers it names
    .aider.conf.yml          agents run what it names
    .pi                      agents run its hooks
    .devin                   agents run its hooks
    .codebuddy               agents run its hooks
    .iflow                   agents run its hooks
    .tabnine                 agents run its hooks
    .mux                     agents run its hooks
    .vibe                    agents start the servers it names
    .warp                    agents start the servers it names
    .kimi-code               agents start the servers it names
    .crush/crush.json        agents start the servers it names
    .crushrc                 agents start the servers it names
    .ringfence               the project's policy
""")
"""Names in a workspace that run code later, outside the sandbox. Not .git/worktrees (`git worktree add` is ordinary
work), nor .pre-commit-config.yaml, package.json and Makefile: those are the project's own content, and reviewed. Nor
what package managers and builders go by (.npmrc, .yarnrc.yml, .pnpmfile.cjs, .cargo, .mvn, .bazelrc): who calls them
runs the project's code, and to edit them is ordinary work."""

OF_HISTORY = frozenset((".git", ".hg", ".sl", ".jj", "HEAD", ".gitmodules", ".lfsconfig"))
"""Of these the first names that belong to a repository: deeper in a workspace one is the command's own to make."""

STARTUP = (
    *((name, why) for name, why in PROTECTED if why in ("shells run it", "git runs what it names") and "/" not in name),
    *rows("""
    .config/git              git runs what it names
    .config/fish             shells run it
    .config/autostart        runs at login
    .config/systemd/user     runs at login
    .local/share/systemd/user runs at login
    .config/environment.d    sets variables at login
    .pam_environment         sets variables at login
    .xprofile                runs at login
    .xinitrc                 runs at login
    .xsession                runs at login
    .xsessionrc              runs at login
    .ssh/authorized_keys     who may log in
    .ssh/config              ssh runs what it names
    .ssh/rc                  sshd runs it
    """),
)
"""Names in a home that run code later; they matter once somebody lets the command write in a home."""
