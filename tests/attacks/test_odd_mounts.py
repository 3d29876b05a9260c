"""Workspaces and secrets on mounts that few machines have: the walls stand there too, or nothing runs and says why.

Each test makes its mounts in a mount namespace of its own.
"""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.attacks.conftest import SECONDS, Field, Ground, Said, ringfence_words
from tests.looking import PROJECT

pytestmark = pytest.mark.needs_root
MANY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in range(int(sys.argv[3])):
    name = f"{sys.argv[1]}/{number}"
    os.mkdir(name)
    if libc.mount(sys.argv[2].encode(), name.encode(), None, 4096, None):
        raise OSError(ctypes.get_errno(), name)
"""


def in_own_mounts(field: Field, script: str, *options: str) -> Said:
    """A shell with mounts of its own, in which {run} is ringfence."""
    run = shlex.join(ringfence_words(field.walls, *options))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script.replace("{run}", run)]
    done = subprocess.run(words, capture_output=True, timeout=3 * SECONDS)
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def readable(ground: Ground) -> tuple[str, str]:
    return "--allow-read", str(ground.base)


def test_a_workspace_on_a_read_only_mount_is_refused_while_planning(field: Field) -> None:
    ground = field.ground()
    ws = ground.workspace
    script = f"mount --bind {ws} {ws}; mount -o remount,ro,bind {ws}; cd {ws}; {{run}} sh -c 'echo ran'"

    seen = in_own_mounts(field, script)

    assert (seen.code, seen.out) == (125, ""), seen
    assert f"{ws} writable: " in seen.err
    assert "mounted read-only" in seen.err


def test_a_read_only_part_of_the_workspace_stays_read_only(field: Field) -> None:
    ground = field.ground()
    part = ground.file("ws/part/file").parent
    ground.own()
    script = (
        f"mount --bind {part} {part}; mount -o remount,ro,bind {part}; cd {ground.workspace}; "
        "{run} sh -c 'echo new > beside; echo x >> part/file || echo refused'"
    )

    seen = in_own_mounts(field, script)

    assert (seen.code, seen.out) == (0, "refused\n"), seen
    assert (ground.workspace / "beside").read_text() == "new\n"


def test_an_end_of_line_in_the_path_of_a_mount_stops_nobody(field: Field) -> None:
    """Every user of a machine who may mount by FUSE chooses such paths, and all others see them."""
    ground = field.ground()
    odd = ground.file("odd/file").parent
    script = f"""
        for name in "$(printf 'a\\rb')" "$(printf 'c\\013d')"; do
            mkdir "{odd}/$name"; mount -t tmpfs t "{odd}/$name"; done
        cd {ground.workspace}; {{run}} echo ran
    """

    seen = in_own_mounts(field, script)

    assert (seen.code, seen.out) == (0, "ran\n"), seen


def test_what_is_granted_by_a_link_is_searched_for_what_a_pattern_denies(field: Field) -> None:
    """The link is one that no command may turn, and nobody here judges each call."""
    ground = field.ground()
    policy = ground.file(
        "policy.toml",
        "allowNestedSandbox = true\n[filesystem]\n"
        'allowWrite = ["/mnt/link"]\ndenyWrite = ["/mnt/real/**/*.lock", "/mnt/link/**/*.key"]\n',
    )
    names = "/mnt/real/d/a.lock /mnt/real/d/a.key /mnt/real/d/free"
    script = f"""
        mount -t tmpfs -o mode=755,uid={ground.uid},gid={ground.gid} t /mnt
        mkdir -p /mnt/real/d; ln -s real /mnt/link
        for name in {names}; do echo old > $name; done; chown -R {ground.uid}:{ground.gid} /mnt
        cd {ground.workspace}; {{run}} sh -c 'for name in {names}; do echo new > $name; done' || :
        cat {names}
    """

    seen = in_own_mounts(field, script, "--policy", str(policy), *readable(ground))

    assert seen.out == "old\nold\nnew\n", seen


@pytest.mark.parametrize("where", ["tmpfs", "own disk"])
def test_a_workspace_that_is_a_mount_of_its_own_works(field: Field, where: str) -> None:
    ground = field.ground()
    ws = ground.workspace
    mount = {
        "tmpfs": f"mount -t tmpfs -o mode=755,uid={ground.uid},gid={ground.gid} t {ws}",
        "own disk": f"mount --bind {ws} {ws}",
    }[where]
    script = f"{mount}; cd {ws}; {{run}} sh -c 'echo made > file; mkdir d; mv file d; cat d/file'; cat d/file"

    seen = in_own_mounts(field, script)

    assert (seen.code, seen.out) == (0, "made\nmade\n"), seen


def test_a_workspace_in_the_shared_temporary_directory_is_shown_alone(field: Field) -> None:
    ground = field.ground()
    shared = "/var/tmp" if PROJECT.is_relative_to("/tmp") else "/tmp"  # we are started from there
    script = f"""
        mount -t tmpfs -o mode=1777 t {shared}
        mkdir -p {shared}/x/ws {shared}/other; echo secret > {shared}/other/file
        chown -R {ground.uid}:{ground.gid} {shared}/x {shared}/other
        cd {shared}/x/ws
        {{run}} sh -c 'echo made > file; cat ../../other/file || echo hidden; echo x > ../beside || echo refused'
        cat file; test ! -e {shared}/x/beside
    """

    seen = in_own_mounts(field, script)

    refused = "refused\n" if field.walls.backend == "landlock" else ""  # with a view it is a /tmp of its own
    assert (seen.code, seen.out) == (0, f"hidden\n{refused}made\n"), seen


def test_a_writable_mount_below_a_hidden_directory_is_writable(field: Field) -> None:
    ground = field.ground()
    cache = ground.file("home/deep/cache/x").parent
    ground.own()
    owner = f"mode=755,uid={ground.uid},gid={ground.gid}"
    script = f"""
        mount -t tmpfs -o {owner} t {cache}; cd {ground.workspace}
        {{run}} sh -c 'echo made > {cache}/file; cat {ground.home}/.ssh/id_ed25519 || echo hidden'
        cat {cache}/file
    """

    seen = in_own_mounts(field, script, "--allow-write", str(cache))

    assert (seen.code, seen.out) == (0, "hidden\nmade\n"), seen


# Somebody types at another terminal; whoever reads there first has it.
TYPED = """
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
os.chown(os.ttyname(theirs), int(sys.argv[1]), -1)
at = sys.argv[2] + os.ttyname(theirs)
for words in (["sh", "-c"], sys.argv[4:] + ["sh", "-c"]):
    os.write(ours, b"typed\\n")
    subprocess.run([*words, sys.argv[3].replace("TERMINAL", at)])
"""


def test_processes_terminals_and_devices_of_the_host_do_not_show_by_other_mounts_of_them(field: Field) -> None:
    ground = field.ground()
    root = ground.file("outside/root/dev/x").parent.parent
    ground.file("outside/root/proc/x")
    ground.own()
    (ground.base / "typed.py").write_text(TYPED)
    looks = f"cat {root}/proc/1/comm; head -n1 TERMINAL; ls {root}/dev | grep -x full"
    script = f"""
        mount --rbind /dev {root}/dev; mount -t proc p {root}/proc
        cd {ground.workspace}
        timeout 60 python3 {ground.base}/typed.py {ground.uid} {root} "({looks}; true) 2>/dev/null | wc -l" {{run}}
    """

    seen = in_own_mounts(field, script, *readable(ground))

    assert (seen.code, seen.out.split()[0]) == (0, "3"), seen
    if field.walls.kind == "view":  # without one processes and terminals are stated gaps
        assert seen.out.split()[1:] == ["0"], seen


ALIASES = {
    "all of it": "mount --bind {base} {alias}; secret={alias}/hidden/key",
    "itself": "mount --bind {base}/hidden {alias}; secret={alias}/key",
    "a part of it": "mount --bind {base}/hidden/deep {alias}; secret={alias}/key",
    "an alias of an alias": "mount --bind {base}/hidden {base}/outside/first; "
    "mount --bind {base}/outside/first {alias}; secret={alias}/key",
    "the root again": "mount --rbind / {alias}; secret={alias}{base}/hidden/key",
    "a file of it": "touch {alias}/f; mount --bind {base}/hidden/key {alias}/f; secret={alias}/f",
    "a name with a space": "mkdir '{alias}/a b'; mount --bind {base}/hidden '{alias}/a b'; secret='{alias}/a b/key'",
}


@pytest.mark.parametrize("how", ALIASES)
def test_what_is_hidden_is_hidden_wherever_its_file_system_shows(field: Field, how: str) -> None:
    ground = field.ground()
    for name in ("hidden/key", "hidden/deep/key"):
        ground.file(name, "the secret\n")
    alias = ground.file("outside/alias/x").parent
    ground.file("outside/first/x")
    ground.own()
    made = ALIASES[how].format(base=ground.base, alias=alias)
    script = f'{made}; cat "$secret"; cd {ground.workspace}; {{run}} cat "$secret" || echo hidden'

    seen = in_own_mounts(field, script, *readable(ground), "--deny-read", str(ground.base / "hidden"))

    assert (seen.code, seen.out) == (0, "the secret\nhidden\n"), seen


def test_five_thousand_mounts_on_the_host_are_no_hindrance(field: Field) -> None:
    count = 500 if field.walls.backend == "bubblewrap" else 5000  # it reads the table of mounts anew for every one
    ground = field.ground()
    mounts = ground.file("outside/mounts/x").parent
    script = f"""
        mount -t tmpfs t {mounts}
        python3 -c {shlex.quote(MANY)} {mounts} {ground.outside}/dir {count}
        cd {ground.workspace}; {{run}} sh -c 'echo made > file; cat {mounts}/{count - 1}/inner'
    """

    seen = in_own_mounts(field, script, *readable(ground))

    assert (seen.code, seen.out) == (0, "canary\n"), seen
    assert (ground.workspace / "file").read_text() == "made\n"


def test_a_secret_shown_at_five_thousand_places_is_hidden_at_all_of_them_or_nothing_runs(field: Field) -> None:
    ground = field.ground()
    mounts = ground.file("outside/mounts/x").parent
    script = f"""
        mount -t tmpfs t {mounts}
        python3 -c {shlex.quote(MANY)} {mounts} {ground.outside}/dir 5000
        cd {ground.workspace}; {{run}} sh -c 'echo made > file; cat {mounts}/4999/inner || echo hidden'
    """

    seen = in_own_mounts(field, script, *readable(ground), "--deny-read", str(ground.outside / "dir/inner"))

    if seen.code == 125:
        # Nothing ran: bubblewrap takes no more arguments, or there are no descriptors left.
        assert "bubblewrap takes at most 9000 arguments" in seen.err or "Too many open files" in seen.err
        assert seen.out == ""
        return

    assert (seen.code, seen.out) == (0, "hidden\n"), seen
    assert (ground.workspace / "file").read_text() == "made\n"


def test_on_an_overlay_as_the_root_the_walls_stand(field: Field) -> None:
    """As in most containers: the numbers of files are the overlay's, or those of the layer below."""
    ground = field.ground()
    ground.file("hidden/key", "the secret\n")
    ground.own()
    layers = Path("/dev/shm") / ground.base.name  # an overlay cannot lie on another
    layers.mkdir()
    run = shlex.join(ringfence_words(field.walls, *readable(ground), "--deny-read", str(ground.base / "hidden")))
    inner = (
        f"cd {ground.workspace}; {run} sh -c 'echo made > file; cat {ground.base}/hidden/key || echo hidden'; cat file"
    )
    script = f"""
        mount -t tmpfs t {layers}; mkdir {layers}/up {layers}/work {layers}/root
        mount -t overlay o -o lowerdir=/,upperdir={layers}/up,workdir={layers}/work {layers}/root
        for name in proc sys dev; do mount --rbind /$name {layers}/root/$name; done
        cd {layers}/root; mkdir -p old; pivot_root . old; umount -l /old || true
        sh -euc {shlex.quote(inner)}
    """
    try:
        seen = in_own_mounts(field, script)
    finally:
        shutil.rmtree(layers)

    assert (seen.code, seen.out) == (0, "hidden\nmade\n"), seen


def test_a_workspace_on_a_file_system_in_user_space_works(field: Field) -> None:
    if not Path("/dev/fuse").exists():
        return  # and then there can be no such workspace
    ground = field.ground()
    ws = ground.workspace
    server = Path(__file__).parent / "fuse.py"
    script = f"""
        python3 {server} {ws} {ground.uid} {ground.gid} > {ground.base}/said & trap "kill $!" EXIT
        until grep -q mounted {ground.base}/said; do sleep 0.01; done
        cd {ws}
        {{run}} sh -c 'mkdir d; echo made > d/file; mv d/file other; cat other
                       echo x > {ground.outside}/canary || echo refused'
        cat other
    """

    seen = in_own_mounts(field, script, *readable(ground))

    assert (seen.code, seen.out) == (0, "made\nrefused\nmade\n"), seen


def on_folded_case(field: Field, ground: Ground, script: str, *options: str) -> Said:
    """A script in a workspace that finds `Kept` in any spelling; {run} is ringfence."""
    server = Path(__file__).parent / "fuse.py"
    whole = f"""
        python3 {server} {ground.workspace} {ground.uid} {ground.gid} folds > {ground.base}/said & trap "kill $!" EXIT
        until grep -q mounted {ground.base}/said; do sleep 0.01; done
        cd {ground.workspace}
        echo secret > Kept; cat kEPT
        {script}
    """
    return in_own_mounts(field, whole, *readable(ground), *options)


@pytest.mark.parametrize("name", ["denied", "KEPT"])
def test_where_case_is_folded_a_name_is_held_in_every_spelling_or_nothing_runs(field: Field, name: str) -> None:
    if not Path("/dev/fuse").exists():
        return
    ground = field.ground()
    script = "{run} sh -c 'echo evil > DENIED; cat kept Kept KEPT; true' || echo not run; cat denied || echo none"

    seen = on_folded_case(field, ground, script, "--deny-read", f"{ground.workspace}/{name}")

    if field.walls.kind == "view":
        assert seen.out == "secret\nnot run\nnone\n", seen
        assert "denied in every spelling: " in seen.err
    else:  # it holds objects, and closes the directory to every new name
        assert seen.out == "secret\n" + "secret\n" * 3 * (name == "denied") + "none\n", seen
