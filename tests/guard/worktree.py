"""A small project in which the commands of the corpus find what they name."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


# What the judge says of each file's lines.
KINDS = {"ordinary": "allow", "outside": "deny", "refused": "deny", "unknown": "ask", "cautious": "ask"}


def corpus(kind: str) -> list[str]:
    """The commands of one kind."""
    return [command for _, command in worlds(kind)]


def worlds(kind: str) -> list[tuple[str, str]]:
    """The commands of one kind, each after what makes the world in which it does what it says; mostly nothing."""
    lines = [json.loads(line) for line in (CORPUS / f"{kind}.jsonl").read_text().splitlines()]
    return [("", line) if isinstance(line, str) else (line[0], line[1]) for line in lines]


def make_template(root: Path) -> None:
    """The project, as each command finds it."""
    for name in ("sub", "sub dir", "src", "tests/unit", "build", "d"):
        (root / name).mkdir(parents=True)
    texts = {
        "a.txt": "hello a\nb 2 7\n",
        "sub/b.txt": "hello\n",
        "list": "/etc/x\n",
        "list.txt": "one\n",
        "a.json": '{"a": {"b": 1}}\n',
        "x.c": "int main(void) { return 0; }\n",
        "script.sh": "#!/bin/sh\ncp a.txt /etc/script\n",
        "s.sh": "touch /etc/x\n",
        "s.py": "open('/etc/x', 'w')\n",
        "s.sed": "w /etc/x\n",
        "p.awk": '{ print > "/etc/x" }\n',
        "c.txt": "output = /etc/x\n",
        "Makefile": "all test:\n\t@touch made\n",
        "sub/Makefile": "all:\n\t@touch made\n",
        "fix.patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-hello a\n+hello b\n b 2 7\n",
        "p.diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-hello a\n+hello b\n b 2 7\n",
        "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"test": "true", "build": "true"}}\n',
        "tests/test_a.py": "def test_x():\n    pass\n",
        "tests/unit/b.txt": "b\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    os.chmod(root / "script.sh", 0o755)
    (root / "link-to-etc").symlink_to("/etc")
    run = {"cwd": root, "check": True, "capture_output": True}
    subprocess.run(["tar", "cf", "a.tar", "a.txt"], **run)  # type: ignore[call-overload]
    subprocess.run(["tar", "czf", "sub.tgz", "sub"], **run)  # type: ignore[call-overload]
    with zipfile.ZipFile(root / "a.zip", "w") as archive:
        archive.writestr("zipped.txt", "z")
    subprocess.run(["gzip", "-k", "a.txt"], **run)  # type: ignore[call-overload]
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (
        ["init", "-q", "--template="],
        ["add", "-A"],
        [*author, "commit", "-qm", "first"],
        ["gc", "-q"],
    ):  # few files to copy
        subprocess.run(["git", *words], **run)  # type: ignore[call-overload]
