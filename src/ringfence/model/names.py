"""Words that several rooms know a thing by."""

SESSION_PREFIX = "ringfence@"
BRANCH_PREFIX = "ringfence/"
"""How the git directory and the branch of a session begin."""
