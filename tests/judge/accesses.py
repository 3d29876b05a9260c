"""The accesses that are tried, and what is answered."""

from typing import NamedTuple

from tests.judge.trees import World

ASIDE = "x-aside"  # as inside.py has it
OPENING = ("read", "list", "exec")
CHANGING = ("write", "touch", "empty", "truncate", "chmod", "chown", "utime", "attribute")
METADATA = ("chmod", "chown", "utime", "attribute", "lchown", "lutime")
FOLLOWING = (*OPENING, *CHANGING, "through")
BORDER = {"EXDEV", "EBUSY"}
FOLLOWED = 40  # links by the kernel
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


def is_done(answer: Answer) -> bool:
    return answer == "done" or isinstance(answer, list)
