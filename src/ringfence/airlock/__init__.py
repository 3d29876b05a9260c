"""What a person approved, and how it is remembered."""

from .store import Store as Store
