"""What programs do with their arguments: a table of knowledge, one row a program.

A row is a few marks, read when its program first appears:

    -abc  --long      options without a value            -o:R  --long=R    options whose value has the role R
    --long?           an optional value that is no path   +                 other options are harmless
    ^                 the first operand ends the options  @RST              roles of the operands; the last goes on
    !handler          a function of acts.py looks at it   ~                 runs what the project tells it to

Roles: n nothing, r read, w opened for writing, x made, removed or replaced, d a directory it works in, m a mode or
else written, q nobody knows. A program without a row is asked about, and so is an option its row does not have.
"""

import functools

import msgspec

READERS = """
cat tac nl wc head tail cut paste join comm fold fmt expand unexpand column rev od hexdump base32 basenc ls dir
vdir stat du df readlink grep egrep fgrep zgrep zcat bzcat xzcat diff cmp jq strings objdump readelf size
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum more eza exa tokei wdiff
colordiff shellcheck hadolint yamllint look tsort pr numfmt bc
"""
SPEAKERS = """
tr realpath basename dirname which whereis whoami id groups users uname uptime nproc free lscpu
lsblk printenv tty locale getconf seq sleep yes factor expr pstree vmstat netstat ping dig host nslookup
cal
tput clear who w last uuidgen sync true false echo hostid logname pathchk lsmod sw_vers banner
"""
TOOLS = """
ninja ctest bazel gradle mvn ant sbt lein rspec tox nox mypy ruff black isort flake8 pylint pyright bandit
autopep8 yapf pyflakes pycodestyle vulture rustc rustfmt gofmt goimports golangci-lint staticcheck tsc eslint prettier
jest vitest mocha ava webpack vite rollup esbuild next ng turbo nx lerna playwright cypress tailwindcss svelte-check
biome swc stylelint ld as ar ranlib strip javac jar kotlinc scalac swiftc phpunit mix rebar3 cabal dune flutter
protoc buf sphinx-build mkdocs hugo shfmt autoconf automake aclocal libtoolize autoreconf flex bison yacc pandoc tap
xo standard tslint babel parcel gulp grunt pre-commit clang-format clang-tidy cppcheck gcov lcov deadcode
knip depcheck twine pyre pytype ty basedpyright djlint rubocop
"""
_C = "-o:w -MF:w -MT:n -MQ:n -I:n -L:n -l:n -D:n -U:n -x:n -include:r -isystem:n -Xlinker:n -B:q -wrapper:q -specs:q"
_C += " --prefix=q"  # another name of -B

_SQUEEZES = (
    "-0123456789cdefhkKlLmnNqQrstvVz -S:n -o:w --suffix=n --stdout --to-stdout "
    "--keep --force --decompress --uncompress --compress --list --test --verbose --quiet --best --fast? --no-name "
    "--name --recursive --rm --threads=n --ultra --long? --extreme --format=n --check=n --no-progress --rsyncable "
    "--help !squeeze"
)
# Which take their values as words of their own, and which only in the same word, so that the next one is a file.
_SQUEEZERS = (
    ("gzip gunzip", "-b:n"),
    ("bzip2 bunzip2", ""),
    ("xz unxz lzma", "-T:n -M:n"),
    ("zstd unzstd", "-T? -b? -B? -M? -D:r"),
    ("lz4", "-T? -b? -B?"),
    ("pigz", "-MT -b:n -p:n"),
)

ROWS: dict[str, str] = {
    **dict.fromkeys(READERS.split(), "+ @r"),
    **dict.fromkeys(SPEAKERS.split(), "+ @n"),
    **dict.fromkeys(TOOLS.split(), "~"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), f"~ {_C}"),
    # files made, changed, removed
    "tee": "-aip --append --ignore-interrupts --output-error? @w",
    "touch": "-acfhm -d:n -r:r -t:n --date=n --reference=r --time=n --no-create --no-dereference @w",
    "truncate": "-co -s:n -r:r --size=n --reference=r --no-create --io-blocks @w",
    "mkdir": "-pvZ -m:n --mode=n --parents --verbose --context? @w",
    "rmdir": "-pv --ignore-fail-on-non-empty --parents --verbose @x !rmdir",
    "rm": "-dfiIrRv --recursive --force --verbose --dir --interactive? --one-file-system --preserve-root? "
    "--no-preserve-root @x",
    "unlink": "@x",
    "shred": "-fuvxz -n:n -s:n --iterations=n --size=n --random-source=r --remove? --force --verbose --zero --exact @w",
    "mkfifo": "-Z -m:n --mode=n @w",
    "mknod": "-Z -m:n --mode=n @wn !device",
    "chmod": "-cfvRrwxXstugoa --reference=r --recursive --verbose --changes --silent --quiet @mw",
    "chown": "-cfhvRP --reference=r --from=n --recursive --verbose --no-dereference --changes @nw !owned",
    "chgrp": "-cfhvRP --reference=r --recursive --verbose --no-dereference --changes @nw !owned",
    "setfacl": "-RbkndM -m:n -x:n --modify=n --remove=n @w",
    "cp": "-abdfiHlLnPpRrsTuvxZ -S:n -t:w --suffix=n --target-directory=w --backup? --preserve? --no-preserve=n "
    "--reflink? --sparse=n --update? --archive --force --interactive --link --dereference --no-dereference "
    "--no-clobber "
    "--recursive --symbolic-link --no-target-directory --verbose --one-file-system --parents --remove-destination "
    "--attributes-only --strip-trailing-slashes --context? !copy",
    "mv": "-bfinuvTZ -S:n -t:w --suffix=n --target-directory=w --backup? --force --interactive --no-clobber "
    "--no-target-directory --update? --verbose --strip-trailing-slashes --no-copy --exchange !copy",
    "install": "-bcCdDpsTvZ -g:n -m:n -o:n -S:n -t:w --group=n --mode=n --owner=n --suffix=n --target-directory=w "
    "--directory --backup? --compare --preserve-timestamps --strip --strip-program=q --no-target-directory --verbose "
    "!copy",
    "ln": "-bfFdiLnPrsTv -S:n -t:w --suffix=n --target-directory=w --symbolic --force --interactive --relative "
    "--no-dereference --logical --physical --no-target-directory --verbose --backup? !link",
    "dd": "!dd",
    "mktemp": "-dqutV -p:w --directory --dry-run --quiet --suffix=n --tmpdir? !mktemp",
    "split": "-dxeuz -a:n -b:n -C:n -l:n -n:n -t:n --filter=q --suffix-length=n --bytes=n --lines=n --number=n "
    "--line-bytes=n --numeric-suffixes? --hex-suffixes? --additional-suffix=n --verbose --elide-empty-files @rn !split",
    "csplit": "-ksz -f:w -b:n -n:n --prefix=w --suffix-format=n --digits=n --keep-files --quiet --silent @rn !csplit",
    "sdiff": "-o:q --output=q --diff-program=q -w:n -I:n + @r",
    "diff3": "--diff-program=q + @r",
    **dict.fromkeys(("zcmp", "zdiff"), "--__cmp=q + @r"),
    "fallocate": "-cdnpvxz -l:n -o:n --length=n --offset=n --keep-size --punch-hole --zero-range --dig-holes @w",
    "sort": "-bcCdfghiMmnRrsuVz -k:n -o:w -S:n -t:n -T:w --output=w --key=n --field-separator=n --buffer-size=n "
    "--temporary-directory=w --parallel=n --batch-size=n --files0-from=r --random-source=r --compress-program=q "
    "--reverse --unique --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort --stable --check? "
    "--merge --ignore-case --sort=n --zero-terminated --debug @r",
    "uniq": "-cdDiuz -f:n -s:n -w:n --count --repeated --all-repeated? --unique --ignore-case --skip-fields=n "
    "--skip-chars=n --check-chars=n --group? --zero-terminated @rw",
    "shuf": "-erz -i:n -n:n -o:w --output=w --echo --input-range=n --head-count=n --random-source=r --repeat @r",
    "xxd": "!xxd",
    "iconv": "-cls -f:n -t:n -o:w --from-code=n --to-code=n --output=w --list --silent --verbose @r",
    "lsof": "-D:q + @r",
    "ss": "-K:q --kill=q -D:w --diag=w -F:r --filter=r -N:n --net=n -f:n --family=n -A:n --query=n + @n",
    "date": "-s:q --set=q -f:r --file=r -r:r --reference=r -d:n --date=n -I? + !clock",
    "pkill": "-F:r --pidfile=r --signal=n + !ends",
    "killall": "-s:n --signal=n -n:n -o:n -y:n + !ends",
    **dict.fromkeys(("pgrep", "pidof"), "-o:n + @n !seeks"),
    "killall5": "!unknown",  # no version of the other
    "ps": "-C:n -G:n -g:n -p:n -q:n -s:n -t:n -u:n -U:n -O:n -o:n -k:n --format=n --sort=n --pid=n --ppid=n --user=n "
    "--User=n --group=n --Group=n --tty=n --sid=n --quick-pid=n --cols=n --columns=n --width=n --rows=n --lines=n + @n "
    "!shows",
    "arch": "+ @q",  # macOS runs what follows
    "getent": "-s:n --service=n + @n !serves",
    "hostname": "-F:q --file=q -b:q + @q",
    "tree": "-o:w -R:q + @r !bundled",
    "base64": "-o:w --output=w + @r",  # as macOS has it
    "less": "-o:w -O:w --log-file=w --LOG-FILE=w -k:q -t:q -T:q --lesskey-file=q --lesskey-src=q --lesskey-content=q "
    "--tag=q --cmd=q + @r "
    "!less",
    "bat": "--pager=q --config-file=q --generate-config-file=q --target=q + @r !cache",
    "file": "-bcdDehiIkLlNnpPrsSvzZ0 -f:r -F:n -m:r -e:n -P:n --brief --mime --mime-type --mime-encoding @r",
    "nm": "-aABCDgnoprSsuPVz --plugin=q -f:n -t:n --demangle? --dynamic --extern-only --defined-only @r",
    "sed": "-nErsuz -e:n -f:q -i? -l:n --expression=n --file=q --in-place? --quiet --silent --regexp-extended "
    "--null-data --separate --sandbox --posix --unbuffered --follow-symlinks --debug --line-length=n !sed",
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"),
        "^ -F:n -v:n -f:q -i:q -l:q -E:q -e:q --field-separator=n "
        "--assign=n --file=q --include=q --load=q --exec=q --source=q --sandbox --posix --re-interval !awk",
    ),
    "patch": "-bcEfFlnNRstTuvZ -p:n -i:r -d:d -o:w -r:w -B:n -z:n -V:n -F:n --strip=n --input=r --directory=d "
    "--output=w "
    "--reject-file=w --dry-run --forward --reverse --backup --batch --force --silent --quiet --verbose --fuzz=n "
    "--no-backup-if-mismatch --unified --merge? --posix --binary @wr !patch",
    "find": "!find",
    "fd": "-x:q -X:q --exec=q --exec-batch=q -e:n -t:n -d:n -E:n --extension=n --type=n --max-depth=n --exclude=n + "
    "@nr",
    "rg": "--pre=q --hostname-bin=q -g:n -t:n -T:n -e:n -f:r -A:n -B:n -C:n -m:n -M:n -j:n --glob=n --type=n "
    "--regexp=n "
    "--file=r --max-count=n --max-depth=n --context=n --iglob=n --sort=n --color=n --colors=n + @nr",
    "ag": "--pager=q + @nr",
    "ack": "--pager=q --ackrc=q --output=q + @nr",  # an output is code to the older ones
    # archives
    "tar": "!tar",
    "bsdtar": "!tar",
    "unzip": "-d:w -P:n -x:n -lntuvzpcfojqaCKLMUVWXZ: + !unzip",
    "zip": "-0123456789AcdDefFgjJklmoqrRSTuvwXyz@ -Z:n -b:w -TT:q -lf:w -t:n -n:n -x:n -i:n -P:n -s:n -O:w --out=w "
    "--recurse-paths --quiet --verbose --junk-paths --symlinks --update --freshen --delete --exclude=n --include=n "
    "--no-extra --no-dir-entries --grow --move --test @wr !zip",
    **{name: f"{values} {_SQUEEZES}" for names, values in _SQUEEZERS for name in names.split()},
    "rsync": "-e:q --rsh=q --rsync-path=q -T:w --temp-dir=w --backup-dir=w --log-file=w --write-batch=w "
    "--only-write-batch=w --partial-dir=w --files-from=q --exclude=n --include=n --exclude-from=r --include-from=r "
    "--filter=n -f:n -B:n --bwlimit=n --timeout=n --chmod=n --chown=n --max-size=n --suffix=n --link-dest=x "
    "--copy-dest=r "
    "--compare-dest=r --daemon=q --early-input=r -M:q --remote-option=q --remove-source-files=q "
    "--copy-as=q --password-file=r --remove-sent-files=q --out-format=n --log-file-format=n --info=n --debug=n "
    "--port=n --address=n --sockopts=n --contimeout=n --iconv=n --protocol=n --checksum-seed=n --compress-choice=n "
    "--zc=n "
    "--checksum-choice=n --cc=n --compress-level=n --zl=n --skip-compress=n --max-delete=n --min-size=n --max-alloc=n "
    "--modify-window=n -@:n --block-size=n --outbuf=n --stop-after=n --stop-at=n --time-limit=n --usermap=n "
    "--groupmap=n --read-batch=r --stderr=n --log-format=n --compress-threads=n --confine-root=q --config=q --dparam=q "
    "+ !rsync",
    # the network
    "curl": "-o:w --output=w -O -J --output-dir=w -D:w --dump-header=w -c:w --cookie-jar=w --trace=w --trace-ascii=w "
    "--stderr=w -K:q --config=q --libcurl=w --etag-save=w --etag-compare=r --hsts=w --alt-svc=w -w:W --write-out=W "
    "--variable=n -T:r --upload-file=r -d:n --data=n --data-raw=n --data-binary=n --data-urlencode=n --json=n -H:n "
    "--header=n -X:n --request=n -u:n --user=n -A:n --user-agent=n -b:n --cookie=n -e:n --referer=n -F:n --form=n -x:n "
    "--proxy=n -m:n --max-time=n -r:n --range=n -E:n --cert=n --key=r --cacert=r --retry=n --connect-timeout=n "
    "--resolve=n --url=n --netrc-file=r -C:n -y:n -Y:n -z:n -Q:n -P:n -t:n --engine=q --ssl-sessions=w --ftp-port=n "
    "--unix-socket=q --abstract-unix-socket=q "
    "+ @n !curl",
    "wget": "-O:w --output-document=w -P:w --directory-prefix=w -o:w -a:w --output-file=w --append-output=w -i:r "
    "--input-file=r -e:q --execute=q --config=q --save-cookies=w --load-cookies=r --warc-file=w --warc-tempdir=w "
    "--warc-cdx --post-file=r --post-data=n --body-file=r --use-askpass=q --rejected-log=w --hsts-file=w -t:n -T:n "
    "-w:n "
    "-U:n -Q:n -l:n -A:n -R:n -D:n -B:n -I:n -X:n --header=n --tries=n --timeout=n --user-agent=n --unlink=q "
    "--default-page=w --input-metalink=q --certificate=r --private-key=r --ca-certificate=r "
    # wget2, which is wget to some systems
    "--plugin=q --local-plugin=q --plugin-dirs=q --gnupg-homedir=q --hpkp-file=w --ocsp-file=w --tls-session-file=w "
    "--stats-dns=q --stats-ocsp=q --stats-server=q --stats-site=q --stats-tls=q --stats-all=q + @n !wget",
    # what runs other programs
    "env": "!env",
    "xargs": "!xargs",
    "timeout": "^ -v -s:n -k:n --signal=n --kill-after=n --foreground --preserve-status --verbose !after1",
    "nice": "^ -n:n --adjustment=n -0123456789 !after",
    "ionice": "^ -t -c:n -n:n --class=n --classdata=n !after",
    "nohup": "^ !after",
    "setsid": "^ -cfw --ctty --fork --wait !after",
    "stdbuf": "^ -i:n -o:n -e:n --input=n --output=n --error=n !after",
    "taskset": "^ -ac !after1",
    "chrt": "^ -abdfiomrR -T:n -P:n -D:n !after1",
    "time": "^ -apqvV -f:n -o:w --format=n --output=w --append --portability --verbose --quiet !after",
    "busybox": "^ !after",
    "flock": "^ -sxeunoFv -w:n -E:n -c:q --shared --exclusive --nonblock --timeout=n --wait=n --close --no-fork !lock",
    "watch": "^ -bcdegptwx -n:n -q:n --interval=n --differences? --no-title --beep --errexit --color !watch",
    **dict.fromkeys(
        "sudo doas".split(),
        "^ -AbEHnPSksiKvV -u:n -g:n -p:n -h:n -C:n -T:n -r:n -D:d -R:q --user=n "
        "--group=n --preserve-env? --non-interactive --stdin --login --chdir=d --chroot=q !sudo",
    ),
    "git": "!git",
    **dict.fromkeys("bash sh dash ash".split(), "!shell"),
    **dict.fromkeys("python python2 python3 pypy pypy3".split(), "!python"),
    **dict.fromkeys(
        "docker podman kubectl helm gh glab aws gcloud openssl ssh psql redis-cli nc ncat java rustup swift "
        "node deno ruby perl php lua luajit Rscript julia tclsh osascript pwsh ts-node tsx fish expect groovy "
        "scala zsh ksh".split(),
        "!interpreter",
    ),
    # tools of a project
    **dict.fromkeys(
        ("make", "gmake"),
        "~ -C:d --directory=d -f:r --file=r --makefile=r -E:q --eval=q -j? -l? -I:n -o:n -W:n --include-dir=n "
        "--old-file=n --assume-old=n --new-file=n --assume-new=n --what-if=n !make",
    ),
    "cmake": "~ -B:w -S:r -P:q -C:r -D:n -G:n -U:n -T:n -A:n -E:n --build=d --install=w --prefix=w --preset=n !cmake",
    "meson": "~ -C:d --wrap-mode=n",
    "npm": "~ -C:d --prefix=d --cache=w --userconfig=q --globalconfig=q --script-shell=q -c:q --call=q -w:n "
    "--workspace=n --loglevel=n --registry=q --git=q --shell=q !npm",
    "yarn": "~ --cwd=d --cache-folder=w --modules-folder=w --use-yarnrc=q --registry=q "
    "--mutex=n --network-timeout=n --include=n --exclude=n --from=n !npm",
    "pnpm": "~ -C:d --dir=d --store-dir=w --global-dir=w --shell-mode=q -c:q -F:n --filter=n --registry=q "
    "--loglevel=n --reporter=n !npm",
    "bun": "~ --cwd=d --cache-dir=w --outdir=w --outfile=w -e:q --eval=q -p:q --print=q -r:q --preload=q --require=q "
    "--import=q -c:q --config=q --registry=q --shell=n --filter=n --loader=n --env-file=r !npm",
    "pytest": "~ --rootdir=r --basetemp=w --junitxml=w --junit-xml=w --log-file=w --html=w --json-report-file=w -k:n "
    "-m:n -c:r "
    "-p:n -o:n -W:n -n:n -r:n --override-ini=n --confcutdir=r --cov=r --cov-config=r --durations=n --maxfail=n "
    "--co --collect-only !pytest",
    **dict.fromkeys(
        ("cargo", "cargo-clippy"),
        "~ -C:d --manifest-path=r --target-dir=w --artifact-dir=w --out-dir=w --root=w --config=q -p:n -j:n --target=n "
        "!cargo",
    ),
    "go": "~ -C:d -o:w -toolexec:q -exec:q -coverprofile:w -cpuprofile:w -memprofile:w -outputdir:w -modfile:w "
    "-overlay:q !go",
    "npx": "^ ~ -y --yes --no --no-install --quiet -q -p:q --package=q -c:q --call=q --registry=q --shell=q -n:q "
    "--userconfig=q --globalconfig=q !after",
    "bunx": "^ ~ --bun -p:q --package=q !after",
    "uvx": "^ ~ -q --quiet --from=q -w:q --with=q -p:q --python=q --with-requirements=q --with-editable=q --index=q "
    "-i:q --default-index=q --index-url=q --extra-index-url=q -f:q --find-links=q -c:q -b:q --env-file=q "
    "--config-file=q --directory=d --project=d !after",
    **dict.fromkeys(("poetry", "pipenv", "hatch", "pdm", "rye"), "~ -C:d --directory=d --project=d !uv"),
    "coverage": "~ --rcfile=r --data-file=w -o:w -d:w -m:n !coverage",
    **dict.fromkeys(
        ("nyc", "c8"),
        "^ ~ -r:n -n:n -x:n -e:n -i:q -t:w -o:w --reporter=n --include=n --exclude=n --extension=n --require=q --cwd=d "
        "--temp-dir=w --report-dir=w --reports-dir=w --nycrc-path=q --config=q !after",
    ),
    **dict.fromkeys(("pip", "pip3", "pipx"), "!pip"),
    "uv": "~ --directory=d --project=d --cache-dir=w -o:w --output-file=w --target=w --prefix=w !uv",
    "dotnet": "~ !dotnet",
    "rake": "~ !rake",
    "composer": "~ -d:d --working-dir=d !npm",
    "bundle": "~ --path=w !uv",
    "terraform": "~ -chdir:d -out:w -state:w -state-out:w -backup:w",
    "sqlite3": "^ -init:q -cmd:q -header -csv -json -column -line -list -readonly -batch -separator:n -newline:n "
    "-nullvalue:n "
    "--readonly --json --csv --header --column !sqlite",
}


# Known by their names alone: they work on files, or serve and watch what the project runs, and whatever they are told
# they do in the sandbox. None of them asks somebody outside of it, as docker, ssh or crontab do.
HELD = frozenset(
    """
top htop fuser lsb_release dpkg apt gem conda ssh-keygen script unbuffer dlv dart jekyll gatsby vue-cli-service buck2
sqlc nodemon lint-staged madge concurrently cross-env drizzle-kit
uvicorn gunicorn hypercorn flask celery alembic streamlit jupyter ipython just task rails puma rackup hyperfine strace
ltrace gdb lldb valgrind perf ldd ffmpeg ffprobe convert magick identify pdftotext pdfinfo dot latexmk pdflatex
xelatex lualatex bibtex biber xmllint xsltproc yq sponge parallel ts jo mlr xsv gron sd dasel eslint_d prisma serve
http-server vue-tsc tsup astro storybook react-scripts expo nuxt knex asciidoctor dprint oxlint actionlint taplo
stylua luacheck ktlint detekt swiftlint swiftformat scalafmt ormolu hlint stack ghc zig nim crystal elixir elixirc
gleam ocaml swig cython nasm msgfmt ptw semgrep codespell markdownlint markdownlint-cli2 commitlint rimraf cloc scc
man entr pg_isready
""".split()
)


class Row(msgspec.Struct):
    """One row, read."""

    flags: frozenset[str]
    short: dict[str, str]  # also single-dash words, as compilers and Go have them
    long: dict[str, str]  # "" takes no value, "?" an optional one
    roles: str
    handler: str
    tolerant: bool
    stops: bool
    tool: bool

    @property
    def harmless(self) -> bool:
        return not self.tool and not set("wxdqW").intersection("".join((*self.short.values(), *self.long.values())))


@functools.cache
def row(name: str) -> Row:
    """A program's row."""
    return marked(ROWS[name])


def marked(text: str) -> Row:
    """A row, read from its marks."""
    flags: set[str] = set()
    short: dict[str, str] = {}
    long: dict[str, str] = {}
    roles = handler = ""
    marks = text.split()
    for mark in marks:
        if mark.startswith("@"):
            roles = mark[1:]
        elif mark.startswith("!"):
            handler = mark[1:]
        elif mark.startswith("--"):
            option, equals, role = mark.partition("=")
            long[option.removesuffix("?")] = role if equals else ("?" if option.endswith("?") else "")
        elif mark.startswith("-") and ":" in mark:
            option, _, role = mark.partition(":")
            short[option[1:]] = role or "n"
        elif mark.startswith("-") and mark.endswith("?"):
            short[mark[1:-1]] = "?"
        elif mark.startswith("-"):
            flags |= set(mark[1:])
    return Row(frozenset(flags), short, long, roles, handler, "+" in marks or "~" in marks, "^" in marks, "~" in marks)
