"""What the kernel must answer to an access, concluded from the judge alone; and the differences a plan may state.

An access is allowed when the judge lets every name be written that it makes, removes or changes, and lets what it
opens be read or written. What is allowed and done bare must be done inside; what is not allowed must not be. Each
excuse below belongs to one gap of the plan, and names exactly the accesses that this gap explains: it holds only while
the plan lists the gap.
"""

import os
from typing import NamedTuple

from tests.judge.trees import World

from ringfence import plan, policy
from ringfence.enforce.links import links_on
from ringfence.keep import Prepared
from ringfence.model import BUILT_IN, Access, Decision, Need, Origin, Rule, Step, StepKind, Verdict
from ringfence.plan import allowlist, crowds, table, view
from ringfence.plan.regions import changes, is_below
from ringfence.plan.rules import PRIVATE
from ringfence.policy.glob import compile_parts, deepest_match, expand

ASIDE = "x-aside"  # as inside.py has it
OPENING = ("read", "list", "exec")
CHANGING = ("write", "touch", "empty", "truncate", "chmod", "chown", "utime", "attribute")
METADATA = ("chmod", "chown", "utime", "attribute", "lchown", "lutime")
FOLLOWING = (*OPENING, *CHANGING, "through")
MOVING = ("rename", "exchange", "link", "replace", "carry")
BORDER = {"EXDEV", "EBUSY"}
Answer = str | list[str]


class Question(NamedTuple):
    """One access, with absolute paths as the command says them."""

    access: str
    path: str
    other: str = ""

    @classmethod
    def read(cls, key: str, world: World, base: str) -> "Question":
        access, *paths = key.split(" ")
        return cls(access, *(world.placed(base, path) for path in paths))


def real(path: str) -> str:
    """What an access reaches that follows links."""
    return os.path.realpath(path)


def name(path: str) -> str:
    """What an access reaches that makes, moves or removes a name."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def circling(path: str) -> set[str]:
    """The links on the way that lead to themselves."""
    links = links_on(path)
    return {link for link in links if links.count(link) > 1}


def left_again(link: str) -> list[str]:
    """The directories that a link leads into, and out of again by their dots."""
    names = os.path.join(os.path.dirname(link), os.readlink(link)).split("/")
    return [real("/".join(names[:at])) for at, name in enumerate(names) if name == ".."]


def mounted(step: Step) -> list[str]:
    """Where a step mounts something: by ourselves, or by bubblewrap and looked at afterwards."""
    if step.kind not in (StepKind.MOUNT, StepKind.VERIFY):
        return []
    target = os.fsdecode(step.strings[0])
    each = step.kind is StepKind.MOUNT and step.numbers[0] in (view.MASK_EACH, view.BIND_EACH)
    return [f"{target}/{os.fsdecode(one)}" for one in step.strings[1].split(b"/")] if each else [target]


def verdicts(made: Prepared) -> list[int]:
    """What the warden's table says, a number for each row; 0 of a directory."""
    return [
        step.numbers[1] if step.kind is StepKind.NAME else 0
        for step in made.walls.head
        if step.kind in (StepKind.PARENT, StepKind.NAME)
        for _ in (step.strings[0].split(b"/") if step.kind is StepKind.NAME else step.strings)
    ]


class Oracle:
    """The judge's answers for one prepared run, and what its plan says it cannot hold. Asked before the run."""

    def __init__(self, made: Prepared, world: World, *tops: str) -> None:
        self.names = world.names()
        self.unsearched = made.disk.unsearched
        self.policy = made.judged()
        self.viewed = plan.has_view(made.host)
        self.gaps = [gap.what for gap in made.walls.gaps]
        regions = plan.lay_out(made.laid, made.host, made.disk, made.temporary)
        self.mounts = [place for step in made.walls.head for place in mounted(step)]
        self.spines: dict[Access, set[str]] = {Access.READ: set(), Access.WRITE: set()}
        if not self.viewed:
            for access, holds in ((Access.READ, allowlist.readable), (Access.WRITE, allowlist.writable)):
                self.spines[access] = allowlist.spines(regions, holds)
        self.there = {
            os.path.join(above, one) for top in tops for above, dirs, files in os.walk(top) for one in (*dirs, *files)
        }
        uncreated = [what.removeprefix("not to be created: ") for what in self.gaps if what.startswith("not to be cr")]
        through = [what.removesuffix(" kept through its link") for what in self.gaps if what.endswith("its link")]
        self.loose = {link for path in through for link in links_on(path)}
        self.uncreated = {path for listed in uncreated for path in listed.split(", ")}
        self.kept = {made.walls.watched[row] for row, verdict in enumerate(verdicts(made)) if verdict == crowds.KEEP}
        if not self.viewed:
            self.kept |= table.links(made.laid, made.disk, changes(regions)).keys()

    def said(self, words: str) -> bool:
        return any(words in what for what in self.gaps)

    # What is allowed.

    def decision(self, access: Access, path: str) -> Decision:
        return policy.decide(self.policy, access, path)

    def may(self, access: Access, path: str) -> bool:
        return self.decision(access, path).verdict is Verdict.ALLOW

    def writes(self, path: str) -> bool:
        return self.may(Access.WRITE, path)

    def changes_name(self, path: str) -> list[str]:
        """The places that must be writable for a name to be made or removed: itself, and the directory it is in."""
        return [path, os.path.dirname(path)]

    def made_on_the_way(self, path: str) -> list[str]:
        """What is not there of a path, from the top, each by its name."""
        found = [path]
        while not os.path.lexists(os.path.dirname(found[0])):
            found.insert(0, os.path.dirname(found[0]))
        return [name(one) for one in found]

    def carried(self, path: str, to: str = "") -> list[str]:
        """The places below a directory that move with it, or would end with it: what is there, and what rules name."""
        if os.path.islink(path) or not os.path.isdir(path):
            return []
        there = [os.path.join(above, one) for above, dirs, files in os.walk(path) for one in (*dirs, *files)]
        named = self.named_below(path)
        moved = [to + one[len(path) :] for one in there] if to else []
        return [*there, *named, *moved]

    def named_below(self, path: str) -> list[str]:
        """What rules deny below a path."""
        denied = [rule.path for rule in self.policy.rules if rule.verdict is not Verdict.ALLOW and not rule.glob]
        return [place for place in denied if is_below(place, path)]

    def patterned_below(self, path: str) -> list[str]:
        """What patterns keep from being written below a path. Every name leads to one of any depth: not those."""
        rules = [rule for rule in self.policy.rules if rule.glob and rule.access is Access.WRITE]
        denied = [rule.path for rule in rules if rule.verdict is not Verdict.ALLOW]
        parts = [compile_parts(one) for pattern in denied for one in expand(pattern) if "**" not in one]
        below = [f"{path}/{one}" for one in self.names]
        below += [f"{above}/{one}" for above in below for one in self.names]
        return [one for one in below if any(deepest_match(part, one.split("/")[1:]) > 0 for part in parts)]

    def needed(self, question: Question) -> list[tuple[Access, str]]:
        """Every place the judge is asked about for an access."""
        access, path, other = question
        if access in OPENING:
            return [(Access.READ, real(path))]
        if access in CHANGING:
            return [(Access.WRITE, real(path))]
        if access in ("mkdirs", "carry"):
            made = self.made_on_the_way(path)
            places = [os.path.dirname(made[0]), *made]
            if access == "carry":
                aside = os.path.join(os.path.dirname(made[0]), ASIDE)
                places += [aside + one[len(made[0]) :] for one in made]
            return [(Access.WRITE, place) for place in places]
        path = real(path) if access == "through" else name(path)
        places = [path] if access in METADATA else self.changes_name(path)
        if access == "symlink" or (other and os.path.islink(path)):
            # On the way to a denied name a link could lead to another directory, where the name is free.
            way = name(other) if other else path
            places += self.named_below(way) + self.patterned_below(way)
        if access == "exchange" and os.path.islink(name(other)):
            places += self.named_below(path)
        if access == "link":
            places += self.changes_name(name(other))
            places.remove(os.path.dirname(path))
        elif access in ("rename", "replace"):
            places += self.carried(name(other)) if access == "replace" else []
            places += self.changes_name(name(other)) + self.carried(path, name(other))
        elif access == "exchange":
            there = name(other)
            places += self.changes_name(there) + self.carried(path, there) + self.carried(there, path)
        elif access == "remake":
            places.append(name(other))
        elif access == "delete" and self.viewed:
            places += self.carried(path)  # else names are judged by their paths, whoever makes the directory again
        return [(Access.WRITE, place) for place in places]

    # What is excused.

    def is_unheld(self, question: Question, access: Access, place: str) -> bool:
        """Whether the plan states that this denial of the judge's is not held against this access."""
        if place in self.loose:
            return True
        if place in self.uncreated and question.access not in CHANGING:
            return True
        if any(self.is_late(one, place) for one in Access):
            return True
        if question.access == "exec" and self.said("a denied pattern in ") and self.is_unseen(place):
            return True
        if self.is_named_nothing(place):
            return True  # a grant without effect, so that the private directory it names stays as it is
        links = links_on(question.path) if question.access in ("mkdirs", "carry") else circling(question.path)
        if self.viewed and any(self.is_private(os.path.dirname(link)) for link in links):
            return (
                True  # the private directory does not have the host's link, but room for others, or the way to a mask
            )
        rule = self.decision(access, place).rule
        if rule is None:
            rule = Rule(access, Verdict.DENY, "/", Origin("nobody"))
        if not self.viewed:
            if question.access in METADATA and self.said("chmod, chown"):
                return True
            if rule.need is Need.WANTED and rule.origin == BUILT_IN and self.said("protected names"):
                return True
        return False

    def is_over_held(self, question: Question, answer: Answer) -> bool:
        """Whether the plan states that an access which the judge allows is refused all the same."""
        places = [real(question.path) if question.access in FOLLOWING else name(question.path)]
        if question.other:
            places.append(name(question.other))
        if question.access in ("mkdirs", "carry"):
            places += self.made_on_the_way(question.path)
        if any(self.is_late(access, place) for place in places for access in Access):
            return True
        if any(self.said(f"{place} changed or opened") for place in places):
            return True
        if any(self.is_private(place) for place in places):
            # The run's own directory does not have the host's things; without a view it is refused whole.
            return self.viewed or self.said("a private /tmp")
        if not self.viewed and self.said("a private /tmp"):
            above = [os.path.dirname(place) for place in places]
            if question.access not in FOLLOWING and any(map(self.is_private, above)):
                return True
        if any(self.is_private(os.path.dirname(place)) and self.is_grant_of_nothing(place) for place in places):
            return True
        # What a pattern grants by a link is its target: what covers a directory does not have the link in it, and where
        # the link stands nothing is granted.
        above = [os.path.dirname(place) for place in places if os.path.islink(place)]
        if not all(map(self.shows, above)) or (question.access in METADATA and not all(map(self.writes, above))):
            return True
        on_the_way = [link for path in question[1:] for link in self.links(path, question)]
        on_the_way += [place for link in on_the_way for place in (os.path.dirname(link), *left_again(link))]
        if any(self.is_private(link) or not self.may(Access.READ, link) for link in on_the_way):
            return True  # a link on the way is not shown, or leads through what is hidden, and so leads nowhere
        # A directory goes, whole, only where the patterns hold the same below it; else it is copied.
        late = any(rule.glob and rule.verdict is not Verdict.ALLOW for rule in self.policy.rules)
        if late and answer == "EXDEV" and (question.access == "carry" or any(map(os.path.isdir, places))):
            return True
        if question.access == "bind" and self.said("unix sockets among"):
            return True
        moves = question.access in MOVING
        if moves and answer == "EACCES" and any(map(self.patterned_below, places)):
            return True  # what arrives on the way to what a pattern denies may be a link
        if answer == "EACCES" and any(place in self.kept and os.path.islink(place) for place in places):
            return True  # a link on the way to what is denied stays, as a directory does
        if self.viewed:
            across = len({self.mount_of(os.path.dirname(place)) for place in places}) > 1
            is_mount = any(place in self.mounts for place in places)
            # A way to a denied name is made, not moved there; an exchange moves both.
            moved = places if question.access == "exchange" else places[1:]
            awaited = any(self.named_below(place) for place in (places if question.access == "remake" else moved))
            return answer in BORDER and (across or is_mount or awaited)
        if not self.said("as a whole"):
            return False
        if question.access == "list":
            return places[0] in self.spines[Access.READ]
        makes = question.access not in (*OPENING, *CHANGING)
        return makes and any(os.path.dirname(place) in self.spines[Access.WRITE] for place in places)

    def links(self, path: str, question: Question) -> tuple[str, ...]:
        follows = question.access in FOLLOWING
        return links_on(path if follows else os.path.dirname(path)) if path else ()

    def is_late(self, access: Access, path: str) -> bool:
        """Whether a pattern speaks for a path that was not there, and the plan states that it was not looked for."""
        rule = self.decision(access, path).rule
        if rule is None or not rule.glob or not self.said(f"the pattern {rule.path} for names that appear later"):
            return False
        return path not in self.there

    def is_private(self, path: str) -> bool:
        rule = self.decision(Access.READ, path).rule
        return rule is not None and rule.access is Access.WRITE and rule.path in PRIVATE and rule.origin == BUILT_IN

    def is_unseen(self, path: str) -> bool:
        """Whether a path lies where no pattern was looked for."""
        return any(is_below(path, above) for above in self.unsearched)

    def shows(self, path: str) -> bool:
        """Whether a directory has the host's names in it."""
        return self.may(Access.READ, path) and not self.is_private(path)

    def is_grant_of_nothing(self, path: str) -> bool:
        """Whether the plan states that a grant has no effect, for nothing is there."""
        rule = self.decision(Access.WRITE, path).rule
        return rule is not None and self.said(f"{rule.path} granted")

    def is_named_nothing(self, path: str) -> bool:
        """Whether a path lies in a private directory, below a name that is granted and is not there."""
        above = os.path.dirname(path)
        if path == "/" or not self.viewed:
            return False
        return (self.is_private(above) and self.said(f"{path} granted")) or self.is_named_nothing(above)

    def mount_of(self, path: str) -> str:
        return max((point for point in self.mounts if point == path or is_below(path, point)), key=len, default="/")

    def shown(self, path: str) -> set[str]:
        """The names in a hidden directory on the way to something that may be read all the same."""
        allowed = [
            rule.path for rule in self.policy.rules if rule.verdict is Verdict.ALLOW and is_below(rule.path, path)
        ]
        return {os.path.relpath(place, path).split("/")[0] for place in allowed}

    # The verdict on an answer.

    def fault(self, question: Question, bare: Answer, inside: Answer) -> str:
        """What is wrong with the kernel's answer, or nothing."""
        refused = [(access, place) for access, place in self.needed(question) if not self.may(access, place)]
        if not refused:
            if not is_done(bare) or is_done(inside) or self.is_over_held(question, inside):
                return ""
            return f"allowed, and answered {inside}"
        if not is_done(inside):
            return ""
        if question.access == "list" and set(inside) <= self.shown(real(question.path)):
            return ""
        if all(self.is_unheld(question, access, place) for access, place in refused):
            return ""
        access, place = refused[0]
        return f"done, although {self.decision(access, place).reason}"


def is_done(answer: Answer) -> bool:
    return answer == "done" or isinstance(answer, list)
