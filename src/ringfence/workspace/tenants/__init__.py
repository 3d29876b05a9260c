"""Tenants: many people on one host, each with a user, a tree and a record."""
