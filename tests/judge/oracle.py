"""What the kernel must answer to an access, concluded from the judge alone; and the differences a plan may state.

An access is allowed when the judge lets every name be written that it makes, removes or changes, and lets what it
opens be read or written. What is allowed and done bare must be done inside; what is not allowed must not be. Each
excuse below belongs to one gap of the plan, and names exactly the accesses that this gap explains: it holds only while
the plan lists the gap.
"""

import os
from collections.abc import Iterable

from tests.judge.accesses import ASIDE, CHANGING, FOLLOWED, METADATA, OPENING, Answer, Question, is_done
from tests.judge.excuses import OVER_HELD, UNHELD, Excuse
from tests.judge.trees import World

from ringfence import plan, policy
from ringfence.enforce.links import followed
from ringfence.keep import Prepared
from ringfence.model import BUILT_IN, Access, Decision, Step, StepKind, Verdict
from ringfence.plan import allowlist, bubblewrap, crowds, table, view
from ringfence.plan.regions import changes, is_below
from ringfence.plan.rules import PRIVATE, links_to
from ringfence.policy.glob import compile_parts, deepest_match, expand


def mounted(step: Step) -> list[str]:
    """Where a step mounts something: by ourselves, or by bubblewrap and looked at afterwards."""
    if step.kind not in (StepKind.MOUNT, StepKind.VERIFY):
        return []
    target = os.fsdecode(step.strings[0])
    each = step.kind is StepKind.MOUNT and step.numbers[0] in (view.MASK_EACH, view.BIND_EACH)
    return [f"{target}/{os.fsdecode(one)}" for one in step.strings[1].split(b"/")] if each else [target]


def is_bound(step: Step) -> bool:
    """Whether what a step mounts is the host's."""
    if step.kind is StepKind.VERIFY:
        return not step.numbers[0] & bubblewrap.IS_COVERED
    return step.kind is StepKind.MOUNT and step.numbers[0] in (view.BIND, view.BIND_EACH, view.OVERLAY)


def verdicts(made: Prepared) -> list[int]:
    """What the warden's table says, a number for each row; 0 of a directory."""
    return [
        step.numbers[1] if step.kind is StepKind.NAME else 0
        for step in made.walls.head
        if step.kind in (StepKind.PARENT, StepKind.NAME)
        for _ in (step.strings[0].split(b"/") if step.kind is StepKind.NAME else step.strings)
    ]


def deepest(points: Iterable[str], path: str) -> str:
    """The last of some places on the way to a path."""
    return max((point for point in points if point == path or is_below(path, point)), key=len, default="/")


class Oracle:
    """The judge's answers for one prepared run, and what its plan says it cannot hold. Asked before the run."""

    def __init__(self, made: Prepared, world: World, *tops: str) -> None:
        self.names = world.names()
        self.excused: set[tuple[str, str]] = set()
        self._decided: dict[tuple[Access, str], Decision] = {}
        self._reached: dict[str, str] = {}
        self.unsearched = made.disk.unsearched
        self.policy = made.judged()
        self.viewed = plan.has_view(made.host)
        self.gaps = [gap.what for gap in made.walls.gaps]
        regions = plan.lay_out(made.laid, made.host, made.disk, made.temporary)
        self.mounts = [place for step in made.walls.head for place in mounted(step)]
        self.bound = [place for step in made.walls.head if is_bound(step) for place in mounted(step)]
        self.spines: dict[Access, set[str]] = {Access.READ: set(), Access.WRITE: set()}
        if not self.viewed:
            for access, holds in ((Access.READ, allowlist.readable), (Access.WRITE, allowlist.writable)):
                self.spines[access] = allowlist.spines(regions, holds)
        self.there = {
            os.path.join(above, one) for top in tops for above, dirs, files in os.walk(top) for one in (*dirs, *files)
        }
        # A link that goes and may not come back led somewhere when it was tried.
        self.links = {path: os.readlink(path) for path in self.there if os.path.islink(path)}
        # The links on the way to what a rule names.
        rules = [rule for rule in made.laid.rules if rule.through or not rule.glob]
        self.ways = [
            (link, os.path.realpath(rule.through if rule.glob else rule.path))
            for rule in rules
            for link in links_to(rule, made.disk)
        ]
        uncreated = [what.removeprefix("not to be created: ") for what in self.gaps if what.startswith("not to be cr")]
        through = [what.removesuffix(" kept through its link") for what in self.gaps if what.endswith("its link")]
        self.loose = {link for path in through for link in followed(path)[0]}
        self.uncreated = {path for listed in uncreated for path in listed.split(", ")}
        self.kept = {made.walls.watched[row] for row, verdict in enumerate(verdicts(made)) if verdict == crowds.KEEP}
        if not self.viewed:
            self.kept |= table.links(made.laid, made.disk, changes(regions)).keys()

    def said(self, beginning: str) -> bool:
        """Whether the plan states a gap that begins so."""
        return any(what.startswith(beginning) for what in self.gaps)

    # What is allowed.

    def decision(self, access: Access, path: str) -> Decision:
        """The judge's answer; remembered, for the thousand accesses of a world are about a few dozen places."""
        known = self._decided.get((access, path))
        if known is None:
            known = self._decided[access, path] = policy.decide(self.policy, access, path)
        return known

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
        return [self.name(one) for one in found]

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
        """What patterns keep from being written below a path. Every name leads to one of any depth: of those the ones
        that name it themselves."""
        rules = [rule for rule in self.policy.rules if rule.glob and rule.access is Access.WRITE]
        denied = [rule.path for rule in rules if rule.verdict is not Verdict.ALLOW]
        patterns = [one for pattern in denied for one in expand(pattern)]
        parts = [compile_parts(one) for one in patterns if "**" not in one or _names(one, path)]
        below = [f"{path}/{one}" for one in self.names]
        below += [f"{above}/{one}" for above in below for one in self.names]
        return [one for one in below if any(deepest_match(part, one.split("/")[1:]) > 0 for part in parts)]

    def needed(self, question: Question) -> list[tuple[Access, str]]:
        """Every place the judge is asked about for an access."""
        access, path, other = question
        if access in OPENING:
            return [(Access.READ, self.real(path))]
        if access in CHANGING:
            return [(Access.WRITE, self.real(path))]
        if access in ("mkdirs", "carry"):
            made = self.made_on_the_way(path)
            places = [os.path.dirname(made[0]), *made]
            if access == "carry":
                aside = os.path.join(os.path.dirname(made[0]), ASIDE)
                places += [aside + one[len(made[0]) :] for one in made]
            return [(Access.WRITE, place) for place in places]
        path = self.real(path) if access == "through" else self.name(path)
        places = [path] if access in METADATA else self.changes_name(path)
        if access == "symlink" or (other and os.path.islink(path)):
            # On the way to a denied name a link could lead to another directory, where the name is free.
            way = self.name(other) if other else path
            places += self.named_below(way) + self.patterned_below(way)
        if access == "exchange" and os.path.islink(self.name(other)):
            places += self.named_below(path)
        if access == "link":
            places += self.changes_name(self.name(other))
            places.remove(os.path.dirname(path))
        elif access in ("rename", "replace"):
            places += self.carried(self.name(other)) if access == "replace" else []
            places += self.changes_name(self.name(other)) + self.carried(path, self.name(other))
        elif access == "exchange":
            there = self.name(other)
            places += self.changes_name(there) + self.carried(path, there) + self.carried(there, path)
        elif access == "remake":
            places.append(self.name(other))
        elif access == "delete" and self.viewed:
            places += self.carried(path)  # else names are judged by their paths, whoever makes the directory again
        return [(Access.WRITE, place) for place in places]

    # Where an access lands, and what speaks for it.

    def real(self, path: str) -> str:
        """What an access reaches that follows links. Asked when the run is over, and remembered, as decisions are."""
        known = self._reached.get(path)
        if known is None:
            known = self._reached[path] = self._followed(path)
        return known

    def _followed(self, path: str) -> str:
        """A run's private directory does not have the host's links."""
        here, rest, followed = "/", path.split("/")[::-1], 0
        while rest:
            one = rest.pop()
            there = os.path.normpath(os.path.join(here, one))
            led = there in self.links or os.path.islink(there)
            if one != ".." and led and not (self.viewed and self.is_private(here)):
                followed += 1
                if followed > FOLLOWED:
                    return os.path.realpath(path)  # a circle, which leads nowhere
                target = self.links.get(there) or os.readlink(there)
                here = "/" if target.startswith("/") else here
                rest += target.split("/")[::-1]
            else:
                here = there
        return here

    def name(self, path: str) -> str:
        """What an access reaches that makes, moves or removes a name."""
        return os.path.join(self.real(os.path.dirname(path)), os.path.basename(path))

    def is_private(self, path: str) -> bool:
        rule = self.decision(Access.READ, path).rule
        return rule is not None and rule.access is Access.WRITE and rule.path in PRIVATE and rule.origin == BUILT_IN

    def is_own(self, path: str) -> bool:
        """Whether a path lies in what the run has for itself, where nothing of the host's is."""
        if not self.viewed or not any(is_below(path, top) or path == top for top in PRIVATE):
            return False
        return deepest((*self.bound, *PRIVATE), path) in PRIVATE

    def shows(self, path: str) -> bool:
        """Whether a directory has the host's names in it."""
        return self.may(Access.READ, path) and not self.is_private(path)

    def mount_of(self, path: str) -> str:
        return deepest(self.mounts, path)

    def shown(self, path: str) -> set[str]:
        """The names in a hidden directory on the way to something that may be read all the same, and is there."""
        below = [place for place in self.there if is_below(place, path) and self.may(Access.READ, place)]
        below += [link for link, place in self.ways if is_below(link, path) and self.leads(place)]
        return {os.path.relpath(place, path).split("/")[0] for place in below}

    def leads(self, path: str) -> bool:
        """Whether a path may be read, or something that is there in it."""
        below = (place for place in self.there if is_below(place, path))
        return any(os.path.lexists(place) and self.may(Access.READ, place) for place in (path, *below))

    # The verdict on an answer.

    def fault(self, question: Question, bare: Answer, inside: Answer) -> str:
        """What is wrong with the kernel's answer, or nothing."""
        needed = self.needed(question)
        refused = [(access, place) for access, place in needed if not self.may(access, place)]
        if not refused:
            if not is_done(bare) or is_done(inside):
                return ""
            return "" if self.excuse(OVER_HELD, question, inside) else f"allowed, and answered {inside}"
        if not is_done(inside):
            return ""
        if question.access == "list" and set(inside) and set(inside) <= self.shown(self.real(question.path)):
            return ""
        if all(self.excuse(UNHELD, question, access, place) for access, place in refused):
            return ""
        access, place = refused[0]
        return f"done, although {self.decision(access, place).reason}"

    def excuse(self, excuses: dict[str, Excuse], question: Question, *facts: object) -> bool:
        """Whether one of the excuses explains a difference; which one is remembered."""
        for one, explains in excuses.items():
            if explains(self, question, *facts):
                self.excused.add((one, question.access))
                return True
        return False


def _names(pattern: str, path: str) -> bool:
    """Whether a part of a pattern takes the last name of a path, and is not for every name: "**", a star behind it."""
    names, parts = path.split("/")[1:], pattern.split("/")
    every = {end for end, part in enumerate(parts) if part == "**" or (part == "*" and "**" in parts[:end])}
    starts = ["/".join(parts[: end + 1]) for end in range(1, len(parts)) if end not in every]
    return any(deepest_match(compile_parts(start), names) == len(names) for start in starts)
