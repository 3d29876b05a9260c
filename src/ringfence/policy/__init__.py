"""What is wanted: policy files read, layered and judged. Pure but for `load` and `trust`, which read files.

What only some doors need (`describe`, `suspect`) is imported by them: it takes a millisecond.
"""

from .decide import canonical_policy as canonical_policy
from .decide import decide as decide
from .flags import Flags as Flags
from .flags import Reach as Reach
from .load import load as load
from .trust import distrust as distrust
from .trust import trust as trust
