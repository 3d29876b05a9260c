"""Where the kernel may answer otherwise than the judge: what the plan states that it cannot hold, and what a view is.

`UNHELD` excuses what is done although the judge refuses it, `OVER_HELD` what is refused although the judge allows it.
Each excuse needs its own gap in the plan, or a sentence of docs/policy.md, which its first line says; and names the
accesses and places that this explains. test_excuses.py shows each of them once.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.judge.accesses import BORDER, CHANGING, FOLLOWING, METADATA, OPENING, Answer, Question

from ringfence.enforce.links import followed
from ringfence.model import Access, Verdict
from ringfence.plan.regions import is_below
from ringfence.plan.rules import PRIVATE, is_protecting

if TYPE_CHECKING:
    from tests.judge.oracle import Oracle

Excuse = Callable[..., bool]
UNHELD: dict[str, Excuse] = {}
OVER_HELD: dict[str, Excuse] = {}


def excuse(excuses: dict[str, Excuse]) -> Callable[[Excuse], Excuse]:
    def add(explains: Excuse) -> Excuse:
        excuses[explains.__name__.strip("_")] = explains
        return explains

    return add


# Done, although the judge refuses it.


@excuse(UNHELD)
def without_effect(oracle: "Oracle", _question: Question, _access: Access, place: str) -> bool:
    """`X granted`, `the pattern X for names that appear later`: reading is granted of something in a private directory
    that is not there, which has no effect. To the judge it is the host's, and inside the run's own as all around it."""
    rule = oracle.decision(Access.READ, place).rule
    if rule is None or rule.verdict is not Verdict.ALLOW or place in oracle.there or not oracle.is_own(place):
        return False
    return (
        f"{rule.path} granted" in oracle.gaps or f"the pattern {rule.path} for names that appear later" in oracle.gaps
    )


@excuse(UNHELD)
def host_link(oracle: "Oracle", _question: Question, _access: Access, place: str) -> bool:
    """`Private directories` in docs/policy.md: they do not have the host's links. What a link denies is denied where it
    leads, and its name is the run's own."""
    return oracle.is_own(place) and any(link == place or is_below(place, link) for link in followed(place)[0])


@excuse(UNHELD)
def loose_link(oracle: "Oracle", question: Question, _access: Access, place: str) -> bool:
    """`X kept through its link`: the target is held, and whoever may write beside the link may replace it."""
    return place in oracle.loose and question.access not in FOLLOWING


@excuse(UNHELD)
def program_in_unsearched(oracle: "Oracle", question: Question, access: Access, place: str) -> bool:
    """`programs that match a denied pattern in X not executed`: where no pattern was looked for."""
    rule = oracle.decision(access, place).rule
    if question.access != "exec" or rule is None or not rule.glob:
        return False
    unseen = any(is_below(place, above) for above in oracle.unsearched)
    return unseen and oracle.said("programs that match a denied pattern in ")


@excuse(UNHELD)
def late_pattern(oracle: "Oracle", question: Question, access: Access, place: str) -> bool:
    """`the pattern X for names that appear later`: where no warden is asked, a pattern denies what was there."""
    rule = oracle.decision(access, place).rule
    if rule is None or not rule.glob or place in oracle.there or question.access in (*OPENING, *CHANGING):
        return False
    return f"the pattern {rule.path} for names that appear later" in oracle.gaps


@excuse(UNHELD)
def not_created(oracle: "Oracle", question: Question, _access: Access, place: str) -> bool:
    """`not to be created: X`: where no warden is asked, a name that is not there cannot be held, nor what is then below
    it."""
    held = any(place == one or is_below(place, one) for one in oracle.uncreated)
    return held and question.access not in (*OPENING, *CHANGING)


@excuse(UNHELD)
def metadata(oracle: "Oracle", question: Question, _access: Access, _place: str) -> bool:
    """`chmod, chown, utime and xattr of what may not be written`: Landlock does not know them, and nobody is asked."""
    return question.access in METADATA and oracle.said("chmod, chown, utime and xattr of what may not be written")


@excuse(UNHELD)
def protected_name(oracle: "Oracle", _question: Question, access: Access, place: str) -> bool:
    """`the N protected names unwritable, in the workspace and …`: without a view and without a warden they are not."""
    rule = oracle.decision(access, place).rule
    protects = rule is not None and is_protecting(rule)
    return protects and any(" protected names unwritable, " in what for what in oracle.gaps)


# Refused, although the judge allows it.


def places(oracle: "Oracle", question: Question) -> list[str]:
    """What an access is about."""
    found = [oracle.real(question.path) if question.access in FOLLOWING else oracle.name(question.path)]
    if question.other:
        found.append(oracle.name(question.other))
    if question.access in ("mkdirs", "carry"):
        found += oracle.made_on_the_way(question.path)
    return found


@excuse(OVER_HELD)
def closed(oracle: "Oracle", question: Question, _answer: Answer) -> bool:
    """`X changed or opened`: a directory nobody can look into, with something denied below, or an object that has
    another name which is denied."""
    return any(f"{place} changed or opened" in oracle.gaps for place in places(oracle, question))


@excuse(OVER_HELD)
def own_directory(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`Private directories` in docs/policy.md: the run's own directory does not have the host's things, and what is
    denied in it can neither be made nor read."""
    own = list(filter(oracle.is_own, places(oracle, question)))
    denied = [place for place in own if place in oracle.mounts or oracle.mount_of(place) not in PRIVATE]
    return (bool(own) and answer in ("ENOENT", "absent", "EISDIR")) or (bool(denied) and answer == "EACCES")


@excuse(OVER_HELD)
def no_private_directory(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`a private /tmp and /var/tmp`: without a view the host's is refused."""
    if oracle.viewed or answer != "EACCES" or not oracle.said("a private /tmp and /var/tmp"):
        return False
    found = places(oracle, question)
    if question.access not in FOLLOWING:
        found += [os.path.dirname(place) for place in found]
    return any(map(oracle.is_private, found))


@excuse(OVER_HELD)
def link_not_shown(oracle: "Oracle", question: Question, _answer: Answer) -> bool:
    """`A grant is for the target, not for the link` in docs/policy.md: what covers a directory has no link in it that a
    pattern matches, and where a link stands nothing is granted."""
    above = [os.path.dirname(place) for place in places(oracle, question) if os.path.islink(place)]
    return not all(map(oracle.shows, above)) or (question.access in METADATA and not all(map(oracle.writes, above)))


def left_again(link: str) -> list[str]:
    """The directories that a link leads into, and out of again by their dots."""
    names = os.path.join(os.path.dirname(link), os.readlink(link)).split("/")
    return [os.path.realpath("/".join(names[:at])) for at, name in enumerate(names) if name == ".."]


@excuse(OVER_HELD)
def way_not_shown(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """A link on the way is hidden, or leads through what is hidden, and so leads nowhere."""
    if not oracle.viewed or answer not in ("ENOENT", "EACCES", "absent"):
        return False
    paths = [path if question.access in FOLLOWING else os.path.dirname(path) for path in question[1:] if path]
    links = [link for path in paths for link in followed(path)[0]]
    links += [place for link in links for place in (os.path.dirname(link), *left_again(link))]
    return not all(map(oracle.shows, links))


@excuse(OVER_HELD)
def moved_whole(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`programs copy instead (EXDEV)` in docs/policy.md: a directory goes whole only where the patterns hold the same
    below it, and a file is exchanged only where they would."""
    if answer != "EXDEV" or not any(rule.glob and rule.verdict is not Verdict.ALLOW for rule in oracle.policy.rules):
        return False
    return question.access in ("carry", "exchange") or any(map(os.path.isdir, places(oracle, question)))


@excuse(OVER_HELD)
def unix_socket(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`unix sockets among the run's own processes`: without a view there are none."""
    return question.access == "bind" and answer == "EAFNOSUPPORT" and oracle.said("unix sockets among ")


@excuse(OVER_HELD)
def kept_link(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """A link on the way to what is denied stays, as a directory does."""
    if answer != "EACCES":
        return False
    return any(place in oracle.kept and os.path.islink(place) for place in places(oracle, question))


@excuse(OVER_HELD)
def border(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """Between mounts, and at one, nothing is moved."""
    if not oracle.viewed or answer not in BORDER:
        return False
    found = places(oracle, question)
    across = len({oracle.mount_of(os.path.dirname(place)) for place in found}) > 1
    return across or any(place in oracle.mounts for place in found)


@excuse(OVER_HELD)
def way_moved(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`On the way to a denied name nothing can be moved` in docs/policy.md: it is made. An exchange moves both."""
    found = places(oracle, question)
    moved = found if question.access in ("exchange", "remake") else found[1:]
    return answer in (BORDER if oracle.viewed else ("EXDEV",)) and any(map(oracle.named_below, moved))


@excuse(OVER_HELD)
def child_by_child(oracle: "Oracle", question: Question, answer: Answer) -> bool:
    """`X as a whole`: without a view what has something denied in it is granted child by child."""
    if oracle.viewed or not any(what.endswith(" as a whole") for what in oracle.gaps):
        return False
    found = places(oracle, question)
    if question.access == "link" and answer == "EXDEV":  # a second name elsewhere
        return os.path.dirname(found[0]) in oracle.spines[Access.WRITE]
    if answer != "EACCES":
        return False
    if question.access == "list":
        return found[0] in oracle.spines[Access.READ]
    makes = question.access not in (*OPENING, *CHANGING)
    return makes and any(os.path.dirname(place) in oracle.spines[Access.WRITE] for place in found)
