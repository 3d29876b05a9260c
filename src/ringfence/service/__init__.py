"""The service: tenants' workspaces over HTTP. A door: it authenticates, authorises, and asks a steward."""
