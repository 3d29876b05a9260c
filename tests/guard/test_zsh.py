"""Lines that bash takes for one thing and zsh for another: the plain judge cannot know which of them will read it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ringfence.guard import ToolCall, judge
from ringfence.judging import bounds_of


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ('echo "${$(touch ../made)}"', 'echo "${$}"'),
        ("echo ${$(touch ../made)]}", "echo ${$%1}"),
        ("set -- a b c d e f g h i ../made; touch $10", "set -- a b c d e f g h i; touch $1 ${9}"),
        ('f() { touch "$~1"; }; f ../made', 'f() { touch "$1"; echo "$= ~"; }; f a'),
        ("test -t 'path[$(touch ../made)]'", "test -t 1"),
        ("[[ -t 'path[$(touch ../made)]' ]]", "[[ -t 0 && -f a.txt ]]"),
        ("logout 'path[$(touch ../made)]'", "logout 1"),
        ("a=b; echo $#a['path[$(touch ../made)]']", "a=b; echo $#a $#"),
        ("ls() { touch ../made; }; exec ls", "ls() { touch made; }; exec cat"),
        ("read path <<< d; ls", "read path <<< d; echo $path"),
        ("IFS=: read -r path rest <<< d:e; ls", "IFS=: read -r one rest <<< d:e; ls"),
        ("printf -v path %s d; ls", "printf -v name %s d; ls"),
        ("x=d; for path in $x; do ls; done", "for path in a.txt; do ls; done"),
        ("((path=1)); ls", "((number=1)); ls"),
        ("read -t \"$(echo 'a[$(>../made)]')\" x <<< a", 'read -t "$wait" x <<< a'),
        ("read -rn \"$(echo 'a[$(>../made)]')\" x <<< a", "read -rn 1 x <<< a"),
        ("PPID+='path[$(>../made)]'", "PPID+=1; total+=a"),
        ("status+=$(echo 'path[$(>../made)]')", "status=$(cat a.txt); total+=$status"),
        ("cd +0 && touch ../made", "cd d && touch ../made"),
        ("pushd d && cd -- -0 && touch ../made", "pushd d && cd ../1 && touch ../made"),
        ("dirs .. && popd && touch made", "dirs -v +0; pushd d && popd && touch made"),
        ("coproc echo; read -rp \"$(echo 'a[$(>../made)]')\" x", 'read -rp "$prompt" x'),
    ],
)
def test_what_zsh_alone_would_run_is_asked_about(line: str, plain: str, tmp_path: Path) -> None:
    root = tmp_path / "w"
    for name in ("d", "1"):
        (root / name).mkdir(parents=True)
        (root / name / "ls").write_text("#!/bin/sh\n/usr/bin/touch ../made\n")
        (root / name / "ls").chmod(0o755)
    made = bounds_of(str(root), home="/home/x")

    assert [judge(ToolCall("bash", {"command": one}), made).verdict.word for one in (line, plain)] == ["ask", "allow"]
    if zsh := shutil.which("zsh"):
        subprocess.run([zsh, "-f", "-c", line], cwd=root, capture_output=True)
        assert (tmp_path / "made").exists()
