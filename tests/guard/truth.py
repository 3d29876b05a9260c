"""What a command really does: run in a throw-away view under strace, and its system calls read back.

The view is bubblewrap's and not ours, so that judge and truth share no code: everything read-only but the worktree and
an empty /tmp, no network. What is refused there was attempted all the same, and that is what counts.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

# Every call that makes, changes or removes a name or opens one; strace writes out where a descriptor points to.
CALLS = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,"
    "mknod,mknodat,chmod,fchmodat,chown,lchown,fchownat,truncate,utimensat,utime,utimes,setxattr,lsetxattr,chdir,fchdir,clone,clone3,fork,vfork"
)
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
# Names that are never links to a file: the command's own streams.
STREAMS = re.compile(
    r"/dev/(?:null|tty|full|zero|random|urandom|stdin|stdout|stderr|ptmx|fd/\d+|pts/.*)\Z|pipe:|socket:|/proc/(?:self|thread-self|\d+)/"
)
_LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)(?:<(?P<path>[^>]*)>)?")
_STRING = re.compile(r'(?:AT_FDCWD<(?P<cwd>[^>]*)>, |\d+<(?P<fd>[^>]*)>, )?"(?P<text>(?:[^"\\]|\\.)*)"')
# Which of the paths of a call are changed by it, and whether a last link is followed.
SECOND = {"link", "linkat", "symlink", "symlinkat"}
NO_FOLLOW = re.compile(r"rename|unlink|rmdir|mkdir|link|mknod|lchown|lset|AT_SYMLINK_NOFOLLOW|O_NOFOLLOW|O_EXCL")


class Truth(NamedTuple):
    """What a command wrote or tried to write, and where it went."""

    writes: frozenset[str]
    enters: frozenset[str]
    links: frozenset[str]  # what links that were made lead to
    code: int


def observe(command: str, root: Path, home: Path, first: str = "", seconds: int = 5) -> Truth:
    """Run a command in its worktree, which is used up by it, and read what it did; what `first` does is not read."""
    trace = root.parent / "trace"
    trace.mkdir(exist_ok=True)
    view = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all"]
    view += ["--bind", str(root), str(root), "--bind", str(home), str(home), "--bind", str(trace), str(trace)]
    pages = "/var/cache/man/cat1"  # a page that somebody has read is not written a second time
    view += ["--tmpfs", pages] * os.path.isdir(pages)
    if sudo := shutil.which("sudo"):  # nobody becomes another here: what it would run is run
        (trace / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
        (trace / "sudo").chmod(0o755)
        view += ["--ro-bind", f"{trace}/sudo", os.path.realpath(sudo)]
    view += ["--die-with-parent", "--new-session", "--chdir", str(root)]
    traced = ["strace", "-f", "--seccomp-bpf", "-y", "-s", "4096", "-o", f"{trace}/out", "-e", f"trace={CALLS}"]
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "MAVEN_OPTS": f"-Duser.home={home}",  # it would ask who we are
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }
    environment |= {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    words = ["timeout", "-k", "1", str(seconds), *traced, "bash", "-c", command]  # it is none of what is looked at
    words = [*view, *(words if not first else ["bash", "-c", f'{first}\n"$@"; exit $?', "bash", *words])]
    (trace / "out").touch()
    with (trace / "out").open(errors="surrogateescape") as file:  # held: `find / -delete` finds its name
        for _ in range(3):  # where the view or the tracer could not be made, nothing has run
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=120)
            if lines := file.read().splitlines():
                break
    assert lines, f"{command!r} was not run: {done.stderr.decode(errors='replace')[:1000]}"
    shutil.rmtree(trace, ignore_errors=True)
    return Truth(*read(lines, root), done.returncode)


def read(lines: list[str], root: Path) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The paths written, the directories entered and what links lead to, canonical."""
    writes, enters, links = set(), set(), set()
    places = dict[str, str]()  # where each process stands
    for line in joined(lines):
        found = _LINE.match(line)
        if found is None or (found["call"].startswith("mkdir") and " EEXIST " in line):  # tools try all the way down
            continue
        call, arguments, pid = found["call"], found["arguments"], line.partition(" ")[0]
        here = places.setdefault(pid, str(root))
        paths = [absolute(match, here) for match in _STRING.finditer(arguments)]
        if call in ("clone", "clone3", "fork", "vfork"):
            places[found["result"]] = here
        elif call in ("chdir", "fchdir"):
            there = paths[0] if paths else (re.findall(r"<([^>]*)>", arguments) or [here])[0]
            enters.add(os.path.realpath(there))
            places[pid] = there if found["result"] == "0" else here
        elif call.startswith(("open", "creat")):
            if WRITING.search(arguments) or call == "creat":
                writes.add(found["path"] or real(paths[0], call + arguments))
        elif call in SECOND:
            writes |= {real(paths[-1], call)} if len(paths) > 1 else set()
            target = next(_STRING.finditer(arguments))
            start = os.path.dirname(paths[-1]) if call.startswith("sym") else here
            links |= {os.path.realpath(absolute(target, start))} if len(paths) > 1 else set()
        else:
            changed = paths[:2] if call.startswith("rename") else paths[:1]
            writes |= {real(path, call + arguments) for path in changed}
    return frozenset(path for path in writes if not STREAMS.match(path)), frozenset(enters), frozenset(links)


def joined(lines: list[str]) -> list[str]:
    """Lines of calls that another process interrupted, put together again."""
    whole, waiting = [], dict[str, str]()
    for line in lines:
        pid = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            waiting[pid] = line.removesuffix("<unfinished ...>").rstrip()
        elif "resumed>" in line and pid in waiting:
            whole.append(waiting.pop(pid) + line.partition("resumed>")[2])
        else:
            whole.append(line)
    return whole


def absolute(match: re.Match[str], root: str) -> str:
    text = (
        match["text"]
        .encode("latin-1", "backslashreplace")
        .decode("unicode_escape")
        .encode("latin-1")
        .decode("utf-8", "replace")
    )
    return os.path.join(match["cwd"] or match["fd"] or root, text)


def real(path: str, call: str) -> str:
    if re.match(
        r"/dev/(?:fd/|std)|/proc/(?:self|\d+)/fd/", path
    ):  # such links are those of the process that asked, and ours are others
        return path
    if NO_FOLLOW.search(call):
        return os.path.join(os.path.realpath(os.path.dirname(path.rstrip("/"))), os.path.basename(path.rstrip("/")))
    return os.path.realpath(path)
