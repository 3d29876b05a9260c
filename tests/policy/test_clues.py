"""What a failed command says is the command's: whatever it says is read in bounded time, and some shapes are known."""

import errno
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.policy.clues import MOST_CLUES, Clue, clues, urls_of

PIECES = [
    "Permission denied",
    ": ",
    "'",
    '"',
    "/",
    "~/",
    "x",
    " ",
    "\n",
    "[Errno 13]",
    "ENOENT",
    "connect to ",
    " port 1",
]
PIECES += [
    "cannot create ",
    "https://",
    "\x00",
    "\udcff",
    "KeyError: 'A",
    "getaddrinfo EAI x",
    "bind",
    "99999",
    ".",
    "‘",
    "$'",
    "\\",
]
SAID = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(SAID, st.lists(st.text(max_size=20), max_size=3))
def test_anything_can_be_read(said: str, words: list[str]) -> None:
    found = clues(said, tuple(words))

    assert len(found) <= MOST_CLUES
    assert all(0 < int(clue.target) < 65536 for clue in found if clue.access == "bind")


@pytest.mark.parametrize(
    "piece", [*PIECES, "A", "connect to a:", "cat: a: Permission denied ", "host='", "://@", "lookup "]
)
def test_nothing_takes_long(piece: str) -> None:
    begun = time.process_time()
    clues((piece * 70_000)[:65_000] + " Permission denied")
    clues((piece * 70_000)[:65_000] + "\nConnection refused")

    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    ("line", "clue"),
    [
        ("cat: /a/b: Permission denied", Clue("read", "/a/b", errno.EACCES)),
        ("==2==LeakSanitizer has encountered a fatal error.", Clue("trace", "ptrace", errno.EPERM)),
        ("unshare: unshare failed: Operation not permitted", Clue("sandbox", "namespaces", errno.EPERM)),
        ("bwrap: No permissions to create new namespace, likely", Clue("sandbox", "namespaces", errno.EPERM)),
        ("[2:ERROR:zygote] No usable sandbox! If this", Clue("sandbox", "namespaces", errno.EPERM)),
        (r"cat: '/a/'$'\303\244': Permission denied", Clue("read", "/a/ä", errno.EACCES)),
        (r"cat: '/a/x'$'\n''y': Permission denied", Clue("read", "/a/x\ny", errno.EACCES)),
        (r"cat: '/a/it'\''s here': Permission denied", Clue("read", "/a/it's here", errno.EACCES)),
        ("bash: line 1: /a/b: Read-only file system", Clue("write", "/a/b", errno.EROFS)),
        ("sh: 1: cannot create src/x: Permission denied", Clue("make", "src/x", errno.EACCES)),
        (
            "error: could not write config file .git/config: Device or resource busy",
            Clue("write", ".git/config", errno.EBUSY),
        ),
        ("npm error EBUSY: resource busy or locked, rmdir '/a/b'", Clue("remove", "/a/b", errno.EBUSY)),
        ("touch: cannot touch '/a b/c': Read-only file system", Clue("make", "/a b/c", errno.EROFS)),
        ("PermissionError: [Errno 13] Permission denied: '/a/b'", Clue("use", "/a/b", errno.EACCES)),
        ("Error: EACCES: permission denied, open '/a/b'", Clue("use", "/a/b", errno.EACCES)),
        ("npm error code EACCES: mkdir '/a/.npm'", Clue("make", "/a/.npm", errno.EACCES)),
        ("open /a/b: permission denied", Clue("use", "/a/b", errno.EACCES)),
        ("Error: Permission denied (os error 13) at \"/a/b\"", Clue("use", "/a/b", errno.EACCES)),
        ("curl: (6) Could not resolve host: x.org", Clue("connect", "x.org:443", errno.EADDRNOTAVAIL)),
        ("connect ECONNREFUSED 10.0.0.1:5432", Clue("connect", "10.0.0.1:5432", errno.ECONNREFUSED)),
        ("dial tcp: lookup x.org on 127.0.0.53:53: no such host", Clue("connect", "x.org:443", errno.EADDRNOTAVAIL)),
        ("ssh: Could not resolve hostname x.org: Name or service not known", Clue("connect", "x.org:22", 99)),
        ("HTTPSConnectionPool(host='x.org', port=443): Failed to establish a new connection: [Errno 111]",
         Clue("connect", "x.org:443", errno.ECONNREFUSED)),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
         Clue("connect", "/var/run/docker.sock", errno.EACCES)),
        ('psql: error: connection to server on socket "/run/pg/.s.PGSQL.5432" failed: Permission denied',
         Clue("connect", "/run/pg/.s.PGSQL.5432", errno.EACCES)),
        ('psql: error: connection to server at "127.0.0.1", port 5432 failed: Connection refused',
         Clue("connect", "127.0.0.1:5432", errno.ECONNREFUSED)),
        ("after connection broken by 'X('<x>: [Errno -3] Temporary failure in name resolution')': /simple/requests/",
         Clue("connect", "pypi.org:443", errno.EADDRNOTAVAIL)),
        ("ERROR: Could not find a version that satisfies the requirement x (from versions: none)",
         Clue("connect", "pypi.org:443")),
        ("npm error EROFS: read-only file system, symlink '../../a' -> '/usr/lib/b'", Clue("write", "/usr/lib/b", 30)),
        ("fatal: '../x.git' does not appear to be a git repository", Clue("read", "../x.git", errno.ENOENT)),
        ("java.net.UnknownHostException: x.org", Clue("connect", "x.org:443", errno.EADDRNOTAVAIL)),
        ('Exception in thread "main" java.io.FileNotFoundException: /a/b (Permission denied)',
         Clue("use", "/a/b", errno.EACCES)),
        ('Error: unable to open database "/a/b": unable to open database file', Clue("write", "/a/b", errno.EACCES)),
        ("/usr/bin/ld: cannot open output file /a/b: Read-only file system", Clue("read", "/a/b", errno.EROFS)),
        ("tar: src/x: Cannot open: No such file or directory", Clue("read", "src/x", errno.ENOENT)),
        ("mv: cannot stat 'a/b': No such file or directory", Clue("read", "a/b", errno.ENOENT)),
        ("env: ‘foo’: Permission denied", Clue("run", "foo", errno.EACCES)),
        ("strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted", Clue("trace", "ptrace", errno.EPERM)),
        ("zsh: command not found: foo", Clue("run", "foo", errno.ENOENT)),
        ("sh: 1: foo: not found", Clue("run", "foo", errno.ENOENT)),
        ("KeyError: 'MY_TOKEN'", Clue("variable", "MY_TOKEN", errno.ENOENT)),
        ("Error: GITHUB_TOKEN is not set", Clue("variable", "GITHUB_TOKEN")),
    ],
)  # fmt: skip
def test_a_known_shape_is_read(line: str, clue: Clue) -> None:
    assert clues(line) == [clue]


def test_pip_s_index_is_the_one_that_it_names_and_none_where_it_was_to_use_none() -> None:
    said = "ERROR: No x (from versions: none)"

    assert clues(f"Looking in indexes: https://x.org/simple\n{said}") == [Clue("connect", "x.org:443")]
    assert clues(said, ("pip", "install", "--no-index", "x")) == []


def test_an_address_has_the_port_that_it_says_or_the_usual_one() -> None:
    said = "get https://h:8443/x or http://k/, not unix:///x; ssh://me@j/p"

    assert urls_of(said) == [("h", 8443), ("k", 80), ("j", 22)]


def test_both_names_of_a_rename_are_read() -> None:
    said = "PermissionError: [Errno 13] Permission denied: '/a' -> 'b'"

    assert clues(said) == [Clue("remove", "/a", errno.EACCES), Clue("remove", "b", errno.EACCES)]
