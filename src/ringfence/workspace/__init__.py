"""Workspaces on the disk: paths that stay inside, and sessions, each an agent's own worktree and branch."""
