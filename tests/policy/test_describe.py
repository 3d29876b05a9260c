"""The schema and the ways a policy is shown."""

import json
from typing import Any

import pytest

from ringfence import policy as room
from ringfence.model import Access, Ask, Environment, Injection, Limit, Need, Network, Origin, Policy, Rule, Verdict
from ringfence.policy.describe import as_document, as_text, schema
from ringfence.policy.keys import KEYS

SHOWN = Policy(
    "/ws",
    (
        Rule(Access.READ, Verdict.ALLOW, "/", Origin("built-in"), why="the system"),
        Rule(Access.READ, Verdict.DENY, "/a/*", Origin("p.json", 3), always=True, glob=True),
        Rule(Access.WRITE, Verdict.DENY, "/b\x1b", Origin("--deny-write"), need=Need.WANTED),
    ),
    network=Network(open=True, local_binding=True),
    environment=Environment(("LC_*",), {"A": "1"}),
    injections=(Injection("/s", "/t", Origin("p.json", 4)),),
    limits=(Limit("memory", 1 << 30, Origin("--memory")),),
    asks=(Ask("seccomp", Origin("p.json", 5), "not yet", Need.REQUIRED),),
    ignored=("p.json:6: x has no effect",),
    sources=("p.json",),
)


def test_a_policy_is_shown_with_the_place_of_every_line() -> None:
    assert as_text(SHOWN, origin=True).splitlines() == [
        "workspace    /ws",
        "enforcement  required",
        "network      open",
        "             listening on loopback",
        "environment  the built-in list, LC_*",
        "             A=1",
        "allow read   /  [built-in]",
        "deny  read   /a/*  (always, pattern)  [p.json:3]",
        "deny  write  /b\\x1b  [--deny-write]",
        "inject       /s at /t  [p.json:4]",
        "limit        memory 1G  [--memory]",
        "not enforced seccomp (required): not yet  [p.json:5]",
        "ignored      p.json:6: x has no effect",
        "from         p.json",
    ]


def test_without_origins_no_place_is_shown() -> None:
    assert "[" not in as_text(SHOWN)


def test_a_policy_is_a_document() -> None:
    assert as_document(SHOWN) == {
        "workspace": "/ws",
        "enforcement": "required",
        "network": {
            "open": True,
            "localBinding": True,
            "allUnixSockets": False,
            "sshAgent": False,
            "hosts": [],
            "deniedAddresses": [],
            "unixSockets": [],
        },
        "environment": {"allow": ["LC_*"], "set": {"A": "1"}},
        "rules": [
            {
                "access": "read",
                "verdict": "allow",
                "path": "/",
                "why": "the system",
                "need": "required",
                "origin": "built-in",
            },
            {
                "access": "read",
                "verdict": "deny",
                "path": "/a/*",
                "always": True,
                "glob": True,
                "need": "required",
                "origin": "p.json:3",
            },
            {"access": "write", "verdict": "deny", "path": "/b\x1b", "need": "wanted", "origin": "--deny-write"},
        ],
        "injections": [{"source": "/s", "target": "/t", "origin": "p.json:4"}],
        "limits": [{"name": "memory", "amount": 1 << 30, "origin": "--memory"}],
        "asks": [{"key": "seccomp", "why": "not yet", "need": "required", "origin": "p.json:5"}],
        "ignored": ["p.json:6: x has no effect"],
        "sources": ["p.json"],
    }
    assert json.loads(json.dumps(as_document(SHOWN))) == as_document(SHOWN)


def names(described: dict[str, Any], groups: set[str]) -> set[str]:
    """The dotted names a schema knows."""
    found = set()
    for name, inner in described["properties"].items():
        found |= {f"{name}.{key}" for key in inner["properties"]} if name in groups else {name}
    return found


def test_the_schema_knows_every_key_of_the_table_and_no_other() -> None:
    described = schema()
    groups = {key.split(".")[0] for key in KEYS if "." in key}

    assert names(described, groups) == set(KEYS)
    assert described["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(described)) == described


def test_the_schema_of_a_key_is_what_is_parsed() -> None:
    properties: dict[str, Any] = schema()["properties"]  # type: ignore[assignment]

    assert properties["enforcement"] == {
        "description": "what happens when a thing cannot be enforced",
        "type": "string",
        "enum": ["required", "best-effort", "off"],
    }
    assert properties["network"]["properties"]["httpProxyPort"] == {
        "description": "a filter of somebody else's on this port of loopback, instead of ours",
        "type": "integer",
        "minimum": 1,
        "maximum": 65535,
    }
    assert properties["filesystem"]["additionalProperties"] is False


PUBLIC = "Flags Reach canonical_policy decide decide_address decide_host decide_name distrust load trust"


@pytest.mark.parametrize("name", PUBLIC.split())
def test_the_room_offers_its_names(name: str) -> None:
    assert getattr(room, name) is not None
