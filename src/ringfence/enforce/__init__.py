"""What touches the world: the disk, the enactor, processes. The platform is chosen here and nowhere else."""

import sys

from .wire import encode as encode
from .wire import encode_step as encode_step
from .wire import whole as whole

if sys.platform == "linux":
    from .disk import canonical as canonical
    from .disk import linked_worktree as linked_worktree
    from .disk import list_children as list_children
    from .disk import mounts as mounts
    from .disk import survey as survey
    from .enactor import ask as ask
    from .enactor import open_enactor as open_enactor
    from .enactor import probe as probe
    from .linux import Launch as Launch
    from .linux import Standby as Standby
    from .linux import disown as disown
    from .linux import start as start
    from .process import inheritance as inheritance
    from .streams import fill_closed as fill_closed
    from .streams import inspect as inspect
else:
    from .unsupported import Launch as Launch
    from .unsupported import Standby as Standby
    from .unsupported import ask as ask
    from .unsupported import canonical as canonical
    from .unsupported import disown as disown
    from .unsupported import fill_closed as fill_closed
    from .unsupported import inheritance as inheritance
    from .unsupported import inspect as inspect
    from .unsupported import linked_worktree as linked_worktree
    from .unsupported import list_children as list_children
    from .unsupported import mounts as mounts
    from .unsupported import open_enactor as open_enactor
    from .unsupported import probe as probe
    from .unsupported import start as start
    from .unsupported import survey as survey
