"""Words that several rooms know a thing by."""

SESSION_PREFIX = "ringfence@"
BRANCH_PREFIX = "ringfence/"
"""How the git directory and the branch of a session begin."""

GRANTED = "somebody approved it"
"""Why a rule holds that a person added by hand; no link may stand on the way to its path."""

TENANT = "RINGFENCE_TENANT"
"""The variable that says that the machine is not the person's: whose workspace this is on it."""
