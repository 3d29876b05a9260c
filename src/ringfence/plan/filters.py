"""From the table of system calls to the bytes of a seccomp filter. Pure."""

import functools
from collections.abc import Iterable, Iterator, Sequence

from . import bpf
from .numbers import numbers
from .row import LOW, Answer, AnyBit, OneOf, Row
from .sorts import Judged, Sockets
from .syscalls import AUDIT_ARCH, rows

_Chain = tuple[int, ...]  # the indices of the rows about one call, up to the first that always answers
_ALLOWED: _Chain = ()
_Run = tuple[int, str]  # the first number, and the label where its search ends


@functools.cache
def filter_for(
    arch: str,
    sockets: Sockets,
    private_ipc: bool,
    nested: bool = False,
    watched: bool = False,
    judged: Judged = Judged.NOTHING,
) -> bytes:
    """The filter as an array of struct sock_filter.

    A binary search over the numbers, so that calls answered whatever their arguments load nothing but the number:
    the kernel then answers them from its bitmap. x32 numbers lie beyond every known one and fall to ENOSYS.
    """
    table = rows(arch, sockets, private_ipc, nested, watched, judged)
    chains = _chains(numbers(arch), table)
    runs = _runs(chains, table)
    conditional = dict.fromkeys(chain for chain in chains.values() if chain and table[chain[0]].when)
    answers = dict.fromkeys(end for _, end in runs if end in Answer.__members__)
    return bpf.assemble(
        [
            bpf.Load(bpf.ARCH),
            bpf.Jump(bpf.Compare.EQUAL, AUDIT_ARCH[arch], "number", "stranger"),
            bpf.Label("stranger"),
            bpf.Return(Answer.KILL),
            bpf.Label("number"),
            bpf.Load(bpf.NUMBER),
            *_search(runs, max(chains) + 2),
            *(item for answer in answers for item in (bpf.Label(answer), bpf.Return(Answer[answer]))),
            *(item for chain in conditional for item in _judgement(chain, table)),
            *_answers(conditional, table),
        ]
    )


def _chains(known: dict[str, int], table: Sequence[Row]) -> dict[int, _Chain]:
    """The rows that each known number meets."""
    chains: dict[int, _Chain] = dict.fromkeys(known.values(), _ALLOWED)
    for index, row in enumerate(table):
        for name in row.names:
            chain = chains[known[name]]
            if not chain or table[chain[-1]].when:
                chains[known[name]] = (*chain, index)
    return chains


def _runs(chains: dict[int, _Chain], table: Sequence[Row]) -> list[_Run]:
    """The numbers as runs that end alike: where each begins, and the label of its end."""
    ends = {chain: _end(chain, table) for chain in {None, *chains.values()}}
    runs: list[_Run] = []
    last = ""
    for number in range(max(chains) + 2):
        end = ends[chains.get(number)]
        if end != last:
            runs.append((number, end))
            last = end
    return runs


def _end(chain: _Chain | None, table: Sequence[Row]) -> str:
    """The label where a number's search ends: an answer that all share, or the rows of its call."""
    if chain is None:
        return Answer.ENOSYS.name
    if chain == _ALLOWED:
        return Answer.ALLOW.name
    return _rows_label(chain) if table[chain[0]].when else table[chain[0]].answer.name


def _rows_label(chain: _Chain) -> str:
    return f"rows {chain}"


def _search(runs: Sequence[_Run], after: int) -> list[bpf.Item]:
    """A binary search, halved by how many numbers lie on each side: when a filter is installed the kernel walks it
    once for every number there is, and that is most of what installing costs."""
    weights = [first + index for index, (first, _) in enumerate(runs)] + [after + len(runs)]
    items: list[bpf.Item] = []

    def halve(low: int, high: int) -> None:
        """The search among the runs from `low` to before `high`, of which there are two at least."""
        half = (weights[low] + weights[high] + 1) // 2
        middle = next((index for index in range(low + 1, high - 1) if weights[index] >= half), high - 1)
        begin, label = runs[middle]
        jump = label if middle == high - 1 else f"from {begin}"
        items.append(bpf.Jump(bpf.Compare.AT_LEAST, begin, jump, runs[low][1] if middle == low + 1 else ""))
        if middle > low + 1:
            halve(low, middle)
        if middle < high - 1:
            items.append(bpf.Label(jump))
            halve(middle, high)

    halve(0, len(runs))
    return items


def _judgement(chain: _Chain, table: Sequence[Row]) -> Iterator[bpf.Item]:
    """The rows of one call, one after the other. They end in answers that all calls share: what the kernel compiles for
    every run is the shorter."""
    kept = -1  # what the accumulator holds wherever a row begins, if that is certain
    for place, index in enumerate(chain):
        row = table[index]
        if not row.when:
            return  # the row before leads to its answer
        following = table[chain[place + 1]] if place + 1 < len(chain) else None
        after = f"{_rows_label(chain)} after {place}"
        failed = _then(Answer.ALLOW) if following is None else after if following.when else _then(following.answer)
        yield bpf.Label(_rows_label(chain) if not place else f"{_rows_label(chain)} after {place - 1}")
        for number, test in enumerate(row.when):
            held = "" if number + 1 < len(row.when) else _then(row.answer)
            yield from _test(test, held or f"{after} test {number}", failed, bpf.argument(test.arg) == kept)
            if not held:
                yield bpf.Label(f"{after} test {number}")
            kept = -1
        if len(row.when) == 1 and _is_plain(row.when[0]):
            kept = bpf.argument(row.when[0].arg)


def _then(answer: Answer) -> str:
    return f"then {answer.name}"


def _answers(chains: Iterable[_Chain], table: Sequence[Row]) -> Iterator[bpf.Item]:
    """The answers at which these rows end."""
    ends = {Answer.ALLOW, *(table[index].answer for chain in chains for index in chain)}
    for answer in sorted(ends):
        yield from (bpf.Label(_then(answer)), bpf.Return(answer))


def _is_plain(test: OneOf | AnyBit) -> bool:
    """Whether it leaves in the accumulator what it has loaded."""
    return test.mask == LOW if isinstance(test, OneOf) else test.bits <= LOW


def _test(test: OneOf | AnyBit, held: str, failed: str, is_loaded: bool) -> Iterator[bpf.Item]:
    """Go to `held` if the test holds, to `failed` if not."""
    if not is_loaded:
        yield bpf.Load(bpf.argument(test.arg))
    if isinstance(test, OneOf):
        if test.mask != LOW:
            yield bpf.And(test.mask)
        for value in test.values[:-1]:
            yield bpf.Jump(bpf.Compare.EQUAL, value, held)
        yield bpf.Jump(bpf.Compare.EQUAL, test.values[-1], held, failed)
    elif test.bits <= LOW:
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits, held, failed)
    else:
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits & LOW, held)
        yield bpf.Load(bpf.argument(test.arg, high=True))
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits >> 32, held, failed)
