"""From what is wanted and what there is to what will be done. Pure: no sockets, processes or clocks."""

from .aliases import with_aliases as with_aliases
from .make import Walls as Walls
from .make import absent_names as absent_names
from .make import assemble as assemble
from .make import covered_places as covered_places
from .make import further_paths as further_paths
from .make import lay_out as lay_out
from .make import make_plan as make_plan
from .make import make_walls as make_walls
from .make import named_paths as named_paths
from .make import shows as shows
from .rules import has_view as has_view
from .rules import with_git_file as with_git_file
from .rules import with_repository as with_repository
from .rules import without_swayed as without_swayed
