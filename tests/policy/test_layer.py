"""Who may narrow and who may widen: tables, and the promises as properties."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import (
    Access,
    Enforcement,
    Environment,
    Injection,
    Limit,
    Need,
    Network,
    Origin,
    Policy,
    PolicyError,
    Rule,
    Verdict,
)
from ringfence.policy.decide import decide
from ringfence.policy.defaults import built_in
from ringfence.policy.layer import MAX_RULES, Layer, Setting, Tier, merge, settled

WS = "/home/u/ws"
BUILT = built_in(WS, ("/home/u",))
READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY
HINT = "the project is not trusted; read the file, then run `ringfence trust`"


def at(line: int, file: str = "f") -> Origin:
    return Origin(file, line)


def layer(tier: Tier, *settings: tuple[str, object], trusted: bool = True, rules: tuple[Rule, ...] = ()) -> Layer:
    name = tier.name.lower()
    made = tuple(Setting(key, value, at(line, name)) for line, (key, value) in enumerate(settings, 1))
    return Layer(tier, name, trusted, rules=rules, settings=made)


def test_an_empty_policy_is_closed() -> None:
    assert merge(WS, ()) == Policy(WS, ())


def test_later_single_values_win_and_lists_unite() -> None:
    policy = merge(
        WS,
        (
            layer(Tier.FLAGS, ("environment.allow", ("B", "C"))),
            layer(
                Tier.USER,
                ("network.allowNetwork", True),
                ("network.allowAllUnixSockets", True),
                ("enforcement", "off"),
                ("environment.allow", ("A", "B")),
                ("environment.set", {"X": "1", "Y": "1"}),
            ),
            layer(
                Tier.EXPLICIT,
                ("network.allowNetwork", False),
                ("enforcement", "best-effort"),
                ("environment.set", {"Y": "2"}),
            ),
        ),
    )

    assert policy == Policy(
        WS,
        (),
        network=Network(all_unix_sockets=True),
        environment=Environment(("A", "B", "C"), {"X": "1", "Y": "2"}),
        enforcement=Enforcement.BEST_EFFORT,
        sources=("user", "explicit", "flags"),
    )


def test_an_untrusted_project_narrows_and_what_it_wants_beyond_that_is_said() -> None:
    deny = (Rule(READ, DENY, "/a", at(1)), Rule(WRITE, DENY, "/b", at(2)), Rule(READ, DENY, "/c", at(3), always=True))
    allow = (
        Rule(READ, ALLOW, "/d", at(4)),
        Rule(WRITE, ALLOW, "/e", at(5)),
        Rule(READ, ALLOW, "/e", at(5), implied=True),
    )
    project = layer(
        Tier.PROJECT,
        ("network.allowNetwork", False),
        ("network.allowAllUnixSockets", True),
        ("enforcement", "required"),
        ("environment.allow", ("SECRET",)),
        ("network.allowedDomains", ("x.com",)),
        ("limits.cpu", 1),
        trusted=False,
        rules=deny + allow,
    )
    project = msgspec.structs.replace(project, injections=(Injection("/s", "/t", at(9)),))
    user = layer(Tier.USER, ("network.allowNetwork", True), ("enforcement", "best-effort"))

    assert merge(WS, (user, project)) == Policy(
        WS,
        deny,
        limits=(Limit("cpu", 1, at(6, "project")),),
        ignored=(
            f"f:4: the permission to read /d has no effect: {HINT}",
            f"f:5: the permission to write /e has no effect: {HINT}",
            f"f:9: showing /s at /t has no effect: {HINT}",
            f"project:2: network.allowAllUnixSockets has no effect: {HINT}",
            f"project:4: environment.allow has no effect: {HINT}",
            f"project:5: network.allowedDomains has no effect: {HINT}",
        ),
        sources=("user", "project"),
    )


def test_an_untrusted_project_cannot_weaken_enforcement() -> None:
    policy = merge(WS, (layer(Tier.PROJECT, ("enforcement", "off"), trusted=False),))

    assert (policy.enforcement, policy.ignored) == (
        Enforcement.REQUIRED,
        (f"project:1: enforcement off has no effect: {HINT}",),
    )


@pytest.mark.parametrize("tier", [tier for tier in Tier if tier is not Tier.PROFILE])
def test_a_profile_alone_says_what_becomes_of_what_no_rule_speaks_of(tier: Tier) -> None:
    profiles = [Layer(Tier.PROFILE, name, True, escape=escape) for name, escape in (("a", DENY), ("b", Verdict.ASK))]

    assert merge(WS, (Layer(tier, "x", True, escape=ALLOW),)).escape is DENY
    assert merge(WS, (*profiles, Layer(tier, "x", True, escape=ALLOW))).escape is Verdict.ASK


def test_a_trusted_project_widens() -> None:
    rules = (Rule(READ, ALLOW, "/d", at(4)),)
    policy = merge(WS, (layer(Tier.PROJECT, ("network.allowNetwork", True), rules=rules),))

    assert policy == Policy(WS, rules, network=Network(open=True), sources=("project",))


def test_what_a_managed_layer_refuses_nobody_grants() -> None:
    managed = layer(
        Tier.MANAGED,
        ("network.allowNetwork", False),
        ("enforcement", "required"),
        rules=(Rule(READ, DENY, "/data", at(1)), Rule(WRITE, DENY, "/out", at(2))),
    )
    flags = layer(Tier.FLAGS, ("network.allowNetwork", True), ("enforcement", "off"))

    assert merge(WS, (managed, flags)) == Policy(
        WS,
        (Rule(READ, DENY, "/data", at(1), always=True), Rule(WRITE, DENY, "/out", at(2))),
        ignored=(
            "flags:1: network.allowNetwork has no effect: managed:1 says no for everyone",
            "flags:2: enforcement has no effect: managed:2 says required for everyone",
        ),
        sources=("managed", "flags"),
    )


@pytest.mark.parametrize(
    ("key", "value", "open_network", "expected"),
    [
        ("network.deniedDomains", ("x.com",), True, Need.REQUIRED),
        ("network.deniedDomains", ("x.com",), False, None),
        ("network.deniedDomains", (), True, None),
        ("network.deniedResolvedAddresses", ("10.0.0.0/8",), True, Need.REQUIRED),
        ("network.tlsTerminate", {"maxTunnels": 1}, True, Need.REQUIRED),
        ("network.requireHostMatch", True, True, Need.REQUIRED),
        ("network.requireHostMatch", False, True, None),
        ("network.allowedDomains", ("x.com",), False, None),
        ("network.allowUnixSockets", ("/s",), False, None),
        ("network.httpProxyPort", 80, False, None),
        ("network.allowMachLookup", ("x",), False, Need.WANTED),
        ("network.allowTcp", (22,), False, None),
        ("credentials.envVars", ({"name": "A", "mode": "deny"},), False, Need.REQUIRED),
        ("enableWeakerNestedSandbox", True, False, Need.WANTED),
        ("ripgrep", {"command": "rg"}, False, Need.WANTED),
        ("windows", {"allowLoopback": True}, False, Need.WANTED),
        ("network.allowLocalBinding", True, False, None),
    ],
)
def test_a_key_that_nothing_carries_out_is_asked_for_where_it_matters(
    key: str, value: object, open_network: bool, expected: Need | None
) -> None:
    policy = merge(WS, (layer(Tier.USER, ("network.allowNetwork", open_network), (key, value)),))

    assert [(ask.key, ask.origin, ask.need) for ask in policy.asks] == (
        [(key, at(2, "user"), expected)] if expected else []
    )


def test_the_git_configuration_can_be_opened_and_its_hooks_stay_closed() -> None:
    policy = merge(WS, (BUILT, layer(Tier.USER, ("filesystem.allowGitConfig", True))))

    verdicts = {name: decide(policy, WRITE, f"{WS}/.git/{name}").verdict for name in ("config", "hooks", "modules")}
    assert verdicts == {"config": ALLOW, "hooks": DENY, "modules": DENY}


def test_switching_path_rules_off_leaves_managed_denials_later_layers_and_our_own_files() -> None:
    policy = merge(
        WS,
        (
            BUILT,
            layer(Tier.MANAGED, rules=(Rule(READ, DENY, "/m", at(1)), Rule(READ, ALLOW, "/n", at(2)))),
            layer(Tier.USER, ("filesystem.disabled", True), rules=(Rule(READ, DENY, "/u", at(3)),)),
            layer(Tier.FLAGS, rules=(Rule(READ, DENY, "/f", at(4)),)),
        ),
        guarded=("/etc/ours",),
    )

    assert [(rule.access, rule.verdict, rule.path, rule.always) for rule in policy.rules] == [
        (READ, ALLOW, "/", False),
        (WRITE, ALLOW, "/", False),
        (READ, ALLOW, WS, False),
        (WRITE, ALLOW, WS, False),
        (WRITE, DENY, "/etc/ours", False),
        (READ, DENY, "/m", True),
        (READ, DENY, "/f", False),
    ]


@pytest.mark.parametrize("tier", [Tier.PROJECT, Tier.MANAGED])
def test_only_the_user_can_switch_path_rules_off(tier: Tier) -> None:
    policy = merge(WS, (BUILT, layer(tier, ("filesystem.disabled", True))))

    assert (policy.rules, policy.ignored) == (
        BUILT.rules,
        (f"{tier.name.lower()}:1: filesystem.disabled has no effect: only the user's own policy or a flag may say it",),
    )


def test_a_read_that_came_with_writing_goes_where_that_path_may_not_be_read() -> None:
    came, said = (Rule(READ, ALLOW, "/a", at(1), implied=implied) for implied in (True, False))
    hidden, kept, above = Rule(READ, DENY, "/a", at(2)), Rule(WRITE, DENY, "/a", at(3)), Rule(READ, DENY, "/", at(4))

    assert settled((came, hidden)) == (hidden,)
    assert settled((said, hidden)) == (said, hidden)
    assert settled((came, kept, above)) == (came, kept, above)


def test_too_many_rules_are_refused_with_their_number() -> None:
    rules = tuple(Rule(READ, DENY, f"/{number}", at(1)) for number in range(MAX_RULES + 1))

    with pytest.raises(PolicyError) as caught:
        merge(WS, (Layer(Tier.USER, rules=rules),))
    assert (caught.value.what, merge(WS, (Layer(Tier.USER, rules=rules[1:]),)).rules) == (
        "8193 rules about paths",
        rules[1:],
    )


# --- properties -------------------------------------------------------------------------------------------------

PARTS = st.sampled_from(["home", "u", "ws", ".ssh", "etc", "tmp", "a", ".git", "hooks", ".cargo", "credentials"])
PATHS = st.one_of(
    st.lists(PARTS, max_size=5).map(lambda parts: "/" + "/".join(parts)),
    st.sampled_from([rule.path for rule in BUILT.rules]).flatmap(
        lambda path: st.sampled_from([path, (path + "/a").replace("//", "/"), path.rpartition("/")[0] or "/"])
    ),
)
GLOBS = PATHS.map(lambda path: (path + "/*").replace("//", "/")) | PATHS.map(lambda path: f"/**{path}".rstrip("/"))


@st.composite
def rules(draw: st.DrawFn, verdicts: tuple[Verdict, ...] = (ALLOW, DENY)) -> Rule:
    glob = draw(st.booleans())
    path = draw(GLOBS if glob else PATHS)
    glob = "*" in path and path not in ("/**", "/*")
    access, verdict = draw(st.sampled_from(list(Access))), draw(st.sampled_from(verdicts))
    always = access is READ and verdict is DENY and draw(st.booleans())
    implied = access is READ and verdict is ALLOW and draw(st.booleans())
    path = path if glob else "/" + path.strip("/*")
    return Rule(access, verdict, path, at(1, "drawn"), always=always, glob=glob, implied=implied)


def rule_sets(**how: tuple[Verdict, ...]) -> st.SearchStrategy[tuple[Rule, ...]]:
    return st.lists(rules(**how), max_size=6).map(tuple)


@given(rule_sets(), rule_sets(), rule_sets(), rule_sets())
def test_layering_never_loses_a_denial(
    managed: tuple[Rule, ...], user: tuple[Rule, ...], project: tuple[Rule, ...], flags: tuple[Rule, ...]
) -> None:
    layers = (
        BUILT,
        Layer(Tier.MANAGED, rules=managed),
        Layer(Tier.USER, rules=user),
        Layer(Tier.PROJECT, trusted=False, rules=project),
        Layer(Tier.FLAGS, rules=flags),
    )
    kept = {(rule.access, rule.path, rule.glob) for rule in merge(WS, layers).rules if rule.verdict is DENY}
    asked = {(rule.access, rule.path, rule.glob) for layer in layers for rule in layer.rules if rule.verdict is DENY}

    assert kept == asked


@given(rule_sets(), rule_sets(), st.sampled_from(list(Access)), PATHS)
def test_an_untrusted_project_never_widens_what_is_judged(
    user: tuple[Rule, ...], project: tuple[Rule, ...], access: Access, path: str
) -> None:
    without = merge(WS, (BUILT, Layer(Tier.USER, rules=user)))
    with_it = merge(WS, (BUILT, Layer(Tier.USER, rules=user), Layer(Tier.PROJECT, trusted=False, rules=project)))

    assert decide(with_it, access, path).verdict >= decide(without, access, path).verdict


@given(rule_sets(verdicts=(DENY,)), rule_sets(), rule_sets(), PATHS)
def test_a_managed_denial_stands_against_everyone(
    managed: tuple[Rule, ...], user: tuple[Rule, ...], flags: tuple[Rule, ...], path: str
) -> None:
    alone = merge(WS, (Layer(Tier.MANAGED, rules=managed),))
    policy = merge(
        WS, (BUILT, Layer(Tier.MANAGED, rules=managed), Layer(Tier.USER, rules=user), Layer(Tier.FLAGS, rules=flags))
    )

    for access in Access:
        if decide(alone, access, path).rule is not None:  # a managed rule speaks for the path
            assert decide(policy, access, path).verdict is DENY
