"""What is wanted: policy files read, layered and judged. Pure but for `load` and `trust`, which read files.

What only some doors need (`describe`, `suspect`) is imported by them, and the judge of hosts when it is first asked: it
takes a millisecond.
"""

from typing import TYPE_CHECKING

from .decide import canonical_policy as canonical_policy
from .decide import decide as decide
from .decide import with_real_patterns as with_real_patterns
from .decide import written_down as written_down
from .defaults import PRIVATE as PRIVATE
from .defaults import check_workspace as check_workspace
from .flags import Flags as Flags
from .flags import Reach as Reach
from .load import load as load
from .trust import distrust as distrust
from .trust import has_approvals as has_approvals
from .trust import trust as trust
from .words import quoted as quoted

if TYPE_CHECKING:
    from .connect import decide_address as decide_address
    from .connect import decide_connect as decide_connect
    from .connect import decide_host as decide_host
    from .connect import decide_name as decide_name
    from .connect import decide_target as decide_target


def __getattr__(name: str) -> object:
    if name not in ("decide_address", "decide_connect", "decide_host", "decide_name", "decide_target"):
        raise AttributeError(name)
    from . import connect

    found: object = getattr(connect, name)
    return found
