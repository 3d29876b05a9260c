"""The regions of a plan are the judge read from the top of the tree: on any literal policy the two say the same."""

import hypothesis
import hypothesis.strategies as st

from ringfence.model import BUILT_IN, Access, Disk, Kind, Origin, Place, Policy, Rule, Verdict
from ringfence.plan.regions import State, changes, is_below, regions
from ringfence.policy import decide
from ringfence.policy.layer import settled

PATHS = st.lists(st.sampled_from(["a", "b", "tmp", "x"]), max_size=4).map(lambda names: "/" + "/".join(names))


class Everywhere(dict[str, Place]):
    """A disk on which everything is a directory."""

    def __missing__(self, path: str) -> Place:
        return Place(path, path, Kind.DIRECTORY)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    access = draw(st.sampled_from(list(Access)))
    verdict = draw(st.sampled_from([Verdict.ALLOW, Verdict.DENY]))
    reading = access is Access.READ
    origin = draw(st.sampled_from([Origin("p", 1), BUILT_IN]))
    always = reading and verdict is Verdict.DENY and draw(st.booleans())
    implied = reading and verdict is Verdict.ALLOW and draw(st.booleans())
    return Rule(access, verdict, draw(PATHS), origin, always=always, implied=implied)


@hypothesis.settings(max_examples=1500, deadline=None)
@hypothesis.given(st.lists(rules(), max_size=7), PATHS)
def test_the_region_of_a_path_is_what_the_judge_says_of_it(drawn: list[Rule], path: str) -> None:
    private = Rule(Access.WRITE, Verdict.ALLOW, "/tmp", BUILT_IN)
    policy = Policy("/ws", settled((private, *drawn)))
    state = State.HIDDEN
    for region in regions(policy, Disk(Everywhere()), ("/tmp",)):
        if region.path == path or is_below(path, region.path):
            state = region.state
    reading = decide(policy, Access.READ, path).rule
    if state is State.HIDDEN and reading is not None and reading.access is Access.WRITE:
        return  # a private place that may not be written: there is nothing of the host's in it to be read either

    assert {
        Access.READ: state is not State.HIDDEN,
        Access.WRITE: state in (State.WRITE, State.PRIVATE),
    } == {access: decide(policy, access, path).verdict is Verdict.ALLOW for access in Access}


def test_what_is_denied_below_a_grant_of_nothing_is_denied_in_the_runs_own_directory() -> None:
    private, origin = Rule(Access.WRITE, Verdict.ALLOW, "/tmp", BUILT_IN), Origin("p", 1)
    allowed = [Rule(access, Verdict.ALLOW, "/tmp/a", origin) for access in Access]
    denied = [Rule(Access.WRITE, Verdict.DENY, "/tmp/a/w", origin), Rule(Access.READ, Verdict.DENY, "/tmp/a/r", origin)]
    places = {path: Place(path, path, Kind.MISSING) for path in ("/tmp/a", "/tmp/a/w", "/tmp/a/r")}
    disk = Disk({"/tmp": Place("/tmp", "/tmp", Kind.DIRECTORY), **places})
    found = regions(Policy("/ws", (private, *allowed, *denied)), disk, ("/tmp",))

    assert [(region.path, region.state, above and above.path) for region, above in changes(found)] == [
        ("/tmp", State.PRIVATE, None),
        ("/tmp/a/r", State.HIDDEN, "/tmp"),
        ("/tmp/a/w", State.HIDDEN, "/tmp"),
    ]
