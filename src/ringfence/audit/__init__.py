"""What was run, refused, granted and changed: an append-only log, each line bound to the one before it.

`log` writes, and is all that a run pays for; `chain` reads and verifies, `index` finds, `ocsf` and `otel` export.
"""

from .log import Log as Log
from .log import LogError as LogError
