"""The warden's own filter lets through what it is given, and ends whoever calls anything else."""

import os
import re
import struct
import subprocess
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.plan.simulator import simulate

from ringfence.plan.row import Answer
from ringfence.plan.syscalls import AUDIT_ARCH

from .conftest import ROOT, SANITIZED, Build

ARCH = AUDIT_ARCH[os.uname().machine]
NUMBERS = (*range(480), 1023, 1024, 1025, 0x40000000, 0x40000001, 0xFFFFFFFF)
LISTS = st.one_of(
    st.lists(st.integers(0, 470), min_size=1, max_size=96),
    st.tuples(st.integers(0, 400), st.integers(1, 60)).map(lambda run: list(range(run[0], run[0] + run[1]))),
)


@pytest.fixture(scope="module")
def confining(build: Build) -> Path:
    return build("confine", ROOT / "tests" / "fuzz" / "confine.c", (*SANITIZED, "-Wno-unused-function"))


def assembled(program: Path, *lists: list[int]) -> list[bytes]:
    asked = b"".join(struct.pack(f"<{len(numbers) + 1}H", len(numbers), *numbers) for numbers in lists)
    said = subprocess.run([program], input=asked, capture_output=True, check=True).stdout
    found = []
    while said:
        size = 8 * int.from_bytes(said[:4], "little")
        found.append(said[4 : 4 + size])
        said = said[4 + size :]
    return found


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(st.lists(LISTS, min_size=1, max_size=6))
def test_every_number_is_answered_as_the_list_says(confining: Path, lists: list[list[int]]) -> None:
    for numbers, program in zip(lists, assembled(confining, *lists), strict=True):
        through = [number for number in NUMBERS if simulate(program, number, ARCH) == Answer.ALLOW]

        assert through == sorted(set(numbers))
        assert {simulate(program, number, ARCH) for number in set(NUMBERS) - set(numbers)} == {Answer.KILL}
        assert {simulate(program, number, 0x40000003) for number in numbers} == {Answer.KILL}


def test_too_many_and_none_make_no_filter_and_as_many_as_fit_make_one(confining: Path) -> None:
    apart = list(range(0, 192, 2))  # as many runs as there can be
    too_many, none, fitting = assembled(confining, list(range(97)), [], apart)

    assert (too_many, none) == (b"", b"")
    assert [number for number in NUMBERS if simulate(fitting, number, ARCH) == Answer.ALLOW] == apart


def test_the_warden_may_call_nothing_that_it_does_not_call() -> None:
    source = "".join(file.read_text() for file in (ROOT / "src" / "ringfence" / "enforce").glob("*.[ch]"))
    made = set(re.findall(r"CALL\((\w+)", source)) | set(re.findall(r"call6\(__NR_(\w+)", source))
    by_the_kernel = {"restart_syscall", "rt_sigreturn"}  # a call goes on after a stop, a handler ends

    assert set(re.findall(r"\bALLOW\((\w+)\)(?! __NR)", source)) - made == by_the_kernel
