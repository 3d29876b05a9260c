"""Words that several rooms know a thing by."""

SESSION_PREFIX = "ringfence@"
BRANCH_PREFIX = "ringfence/"
"""How the git directory and the branch of a session begin."""

SCRATCH = "room of the run's own"
"""Why a built-in rule closes a directory in whose place a view puts one of the run's own, gone with it; what has no
view only closes it."""
