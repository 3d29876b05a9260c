"""What touches the world: the disk, the enactor, processes. The platform is chosen here and nowhere else.

What a first run in an ordinary place does not need is imported when somebody asks for it.
"""

import sys
from typing import TYPE_CHECKING

from .holding import let_go as let_go
from .lookout import Ground as Ground
from .lookout import Identities as Identities
from .lookout import Listings as Listings
from .lookout import brief as brief
from .lookout import identities as identities
from .lookout import seen_at as seen_at
from .programs import all_programs as all_programs
from .repository import Repository as Repository
from .repository import beside as beside
from .repository import repository_of as repository_of
from .repository import worktrees as worktrees
from .wire import encode as encode
from .wire import encode_exec as encode_exec
from .wire import encode_step as encode_step
from .wire import encode_texts as encode_texts
from .wire import whole as whole

if TYPE_CHECKING:
    from .temporary import DOOR as DOOR
    from .temporary import Doorway as Doorway
    from .temporary import listen_at as listen_at
    from .temporary import new_directory as new_directory
    from .temporary import remove as remove
    from .temporary import write_new as write_new

    if sys.platform == "linux":
        from .crowd import look_at as look_at
        from .standby import Nursery as Nursery
        from .standby import Standby as Standby

if sys.platform == "linux":
    from .disk import canonical as canonical
    from .disk import list_children as list_children
    from .disk import mounts as mounts
    from .disk import standing_at as standing_at
    from .disk import survey as survey
    from .enactor import ask as ask
    from .enactor import controllers as controllers
    from .enactor import hides_processes as hides_processes
    from .enactor import make_group as make_group
    from .enactor import open_enactor as open_enactor
    from .enactor import owns_group as owns_group
    from .enactor import probe as probe
    from .folding import folding as folding
    from .linux import Launch as Launch
    from .linux import disown as disown
    from .linux import start as start
    from .process import inheritance as inheritance
    from .shelf import make_shelf as make_shelf
    from .streams import look_over as look_over
    from .streams import were_plain as were_plain
else:
    from .unsupported import Nursery as Nursery
    from .unsupported import Standby as Standby
    from .unsupported import ask as ask
    from .unsupported import canonical as canonical
    from .unsupported import controllers as controllers
    from .unsupported import disown as disown
    from .unsupported import folding as folding
    from .unsupported import hides_processes as hides_processes
    from .unsupported import inheritance as inheritance
    from .unsupported import list_children as list_children
    from .unsupported import look_at as look_at
    from .unsupported import look_over as look_over
    from .unsupported import make_group as make_group
    from .unsupported import make_shelf as make_shelf
    from .unsupported import mounts as mounts
    from .unsupported import open_enactor as open_enactor
    from .unsupported import owns_group as owns_group
    from .unsupported import standing_at as standing_at
    from .unsupported import were_plain as were_plain

    if sys.platform == "darwin":
        from .macos import Launch as Launch
        from .macos import probe as probe
        from .macos import start as start
        from .macos import survey as survey
    else:
        from .unsupported import Launch as Launch
        from .unsupported import probe as probe
        from .unsupported import start as start
        from .unsupported import survey as survey


def __getattr__(name: str) -> object:
    if name in ("DOOR", "Doorway", "listen_at", "new_directory", "remove", "write_new"):
        from . import temporary

        return _kept(name, temporary)
    if sys.platform == "linux":
        if name in ("Nursery", "Standby"):
            from . import standby

            return _kept(name, standby)
        if name == "look_at":
            from . import crowd

            return _kept(name, crowd)
    raise AttributeError(name)


def _kept(name: str, module: object) -> object:
    found: object = getattr(module, name)
    globals()[name] = found
    return found
