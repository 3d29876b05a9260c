"""What stands between a run and the network: a resolver, proxies, and whoever dials for them.

It runs in a process of its own (`ringfence.gate`), outside the sandbox; the judge is handed in. `start` is the other
side, in the process that started the run, and imports next to nothing.
"""
