"""Who the command is: the ids the enactor takes on, and the capabilities it leaves."""

import errno
import os
import shutil
import sys

import pytest
from tests.enforce.conftest import NO_NEW_PRIVS, STREAMS, Ran, bare, execute, pipe, shell, step

from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.enforce.process import sealed
from ringfence.model import StepKind

assert sys.platform == "linux"

NOBODY = 65534
CAPABILITIES = step(StepKind.CAPABILITIES)
NONE = "0" * 16


def shown(*names: str) -> str:
    """Some lines of what the kernel says of a process, without its white space."""
    wanted = "|".join(f"{name}:" for name in names)
    return f"while read -r name rest; do case $name in {wanted}) echo $name $rest;; esac; done < /proc/self/status"


class Through(Opened):
    """An enactor started by setpriv, with what that leaves it."""

    def __init__(self, enactor: Opened, *options: str) -> None:
        super().__init__(enactor.kind, enactor.fd, enactor.path)
        self.enactor, self.options = enactor, options

    def command(self, *numbers: int, ids: tuple[int, int] | None = None) -> tuple[list[str], str]:
        arguments, executable = self.enactor.command(*numbers, ids=ids)
        setpriv = shutil.which("setpriv")
        assert setpriv
        return ["setpriv", *self.options, executable, *arguments[1:]], setpriv


def as_ids(enactor: Opened, uid: int, gid: int, script: str) -> tuple[Ran, bytes]:
    """Run a script as somebody else; the outcome, and the records."""
    plan = sealed(wire.encode([NO_NEW_PRIVS, STREAMS, shell(script)]))
    with pipe() as status:
        given = {fd: fd for fd in (plan, status.write)}
        ran = bare(enactor, b"", words=(plan, status.write, uid, gid), passed=given)
        os.close(plan)
        os.close(status.write)
        return ran, os.read(status.read, 1000)


@pytest.mark.needs_root
def test_the_ids_are_taken_on_whole_and_no_group_is_left(each: Opened) -> None:
    ran, records = as_ids(Through(each, "--groups=4,24"), NOBODY, NOBODY - 1, shown("Uid", "Gid", "Groups", "CapPrm"))

    uids, gids = " ".join(["65534"] * 4), " ".join(["65533"] * 4)
    assert ran.out.decode() == f"Uid: {uids}\nGid: {gids}\nGroups:\nCapPrm: {NONE}\n"
    assert records == wire.RECORD.pack(wire.READY, 2, StepKind.EXEC, 0)


@pytest.mark.parametrize(("uid", "gid"), [(0, 1), (1, 0), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF), (1 << 32, 1)])
def test_nobody_becomes_root_or_nobody_at_all(each: Opened, uid: int, gid: int) -> None:
    assert as_ids(each, uid, gid, "echo ran") == (
        Ran(125, (), b""),
        wire.RECORD.pack(wire.FAILED, 0, 0, errno.EINVAL),
    )


@pytest.mark.needs_root
def test_a_plan_is_opened_as_the_user_it_is_for(each: Opened) -> None:
    """What only root may enter is closed to the plan: root interprets none."""
    private = step(StepKind.DIRECTORY, 0, 0, strings=("/proc/1/root",))
    plan = sealed(wire.encode([STREAMS, private, shell("echo ran")]))
    with pipe() as status:
        given = {fd: fd for fd in (plan, status.write)}
        ran = bare(each, b"", words=(plan, status.write, NOBODY, NOBODY), passed=given)
        os.close(plan)

    assert (ran.code, ran.out) == (125, b"")


@pytest.mark.needs_root
def test_root_is_left_no_capability_and_none_to_be_given_again(each: Opened) -> None:
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    steps = [NO_NEW_PRIVS, STREAMS, CAPABILITIES, shell(shown(*sets))]

    ran = bare(Through(each, "--inh-caps=+net_raw,+sys_admin"), wire.encode(steps))

    assert ran.out.decode() == "".join(f"{name}: {NONE}\n" for name in sets)


@pytest.mark.needs_root
def test_root_without_capabilities_has_none_to_drop_and_that_is_no_failure(each: Opened) -> None:
    """So it is inside another sandbox."""
    steps = [NO_NEW_PRIVS, STREAMS, CAPABILITIES, execute("/bin/echo", "ran")]

    ran = bare(Through(each, "--bounding-set=-all", "--inh-caps=-all"), wire.encode(steps))

    assert ran == Ran(0, ((wire.READY, 3, StepKind.EXEC, 0),), b"ran\n")


@pytest.mark.needs_root
def test_root_that_cannot_drop_what_it_holds_is_refused(each: Opened) -> None:
    steps = [NO_NEW_PRIVS, STREAMS, CAPABILITIES, execute("/bin/echo", "ran")]

    ran = bare(Through(each, "--bounding-set=-setpcap", "--inh-caps=-all"), wire.encode(steps))

    assert ran == Ran(125, ((wire.FAILED, 2, StepKind.CAPABILITIES, errno.EPERM),), b"")
