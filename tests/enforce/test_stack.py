"""The program has no guard behind the stacks of its watchers, which are arrays beside what they know: what calls itself
as often as somebody else likes writes over that. So nothing does, and the deepest chain of calls leaves room."""

import re
import subprocess
from collections import defaultdict

import pytest

from .conftest import CFLAGS, ROOT

SOURCE = ROOT / "src" / "ringfence" / "enforce" / "enact.c"
BOUNDED = {"search_at", "do_steps", "enact"}  # by the logarithm of 96; once, for the next command
STACKS = {"keep_outside": 16384, "keep_inside": 65536, "keep_on": 65536, "attend": 65536}


class Calls:
    """Who calls whom in the program, and how many bytes of stack each takes, as its compiler says."""

    def __init__(self, text: str) -> None:
        self.bytes: dict[str, int] = {}
        self.called = defaultdict[str, set[str]](set)
        for title, label in re.findall(r'node: \{ title: "([^"]+)" label: "([^"]*)"', text):
            found = re.search(r"(\d+) bytes \((\w+)\)", label)
            assert found is None or found[2] == "static", label
            self.bytes[title] = int(found[1]) if found else 0
        for caller, callee in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            self.called[caller].add(callee)

    def deepest(self, name: str, way: tuple[str, ...] = ()) -> int:
        if name in way:
            again = {bare(one) for one in way[way.index(name) :]}
            assert again <= BOUNDED, f"{' > '.join(map(bare, way))} > {bare(name)}"
            return 0
        below = [self.deepest(one, (*way, name)) for one in self.called[name]]
        return self.bytes.get(name, 0) + max(below, default=0)


def bare(name: str) -> str:
    return name.split(":")[-1].split(".")[0]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    where = tmp_path_factory.mktemp("calls")
    flags = [flag for flag in CFLAGS if not flag.startswith("-Wl,")]
    words = ["gcc", *flags, "-fcallgraph-info=su", "-c", "-o", str(where / "enact.o"), str(SOURCE)]
    subprocess.run(words, cwd=where, check=True)
    return Calls((where / "enact.ci").read_text())


@pytest.mark.parametrize("name", STACKS)
def test_the_deepest_chain_of_calls_leaves_half_of_its_stack(calls: Calls, name: str) -> None:
    (begin,) = [one for one in calls.bytes if bare(one) == name]

    assert 0 < calls.deepest(begin) <= STACKS[name] // 2
