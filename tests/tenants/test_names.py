"""One name for each host however it is spelt, and one user for each name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import TenantError
from ringfence.workspace.tenants.names import MOST_USER, tenant_name, user_name

SAME = [
    ("example.com", "EXAMPLE.com", "Example.Com.", "example.com."),
    ("xn--bcher-kva.example", "bücher.example", "BÜCHER.example", "bu\u0308cher.example"),
    ("test", "TEST"),
]
WRONG = ["", ".", "..", "a..b", "-a.com", "a-.com", "a_b.com", "a b.com", "a/b", "../x", "a\0b", "a\nb", "1.2.3.4"]
WRONG += ["127.1", "[::1]", "a:80", "localhost", "ROOT", "worktrees", "user", "x" * 64 + ".com", "a." * 150 + "com"]
WRONG += ["xn--a.com", "xn--999999999.com", "\u202ea.com", "%2e%2e", "*", "~", "a\u2024com\u2024..", "e\ud800.com"]

LABELS = st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?\Z").filter(lambda text: text[2:4] != "--")
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize("spelt", SAME)
def test_one_host_has_one_name(spelt: tuple[str, ...]) -> None:
    assert {tenant_name(host) for host in spelt} == {spelt[0]}


@pytest.mark.parametrize("host", WRONG)
def test_what_is_no_host_is_no_name(host: str) -> None:
    with pytest.raises(TenantError) as caught:
        tenant_name(host)
    assert caught.value.code == "TENANT_INVALID_NAME"


def test_hyphens_and_dots_do_not_meet() -> None:
    hosts = ["a-b.com", "a.b-com", "a.b.com", "a-b-com", "ab.com", "a" * 40 + ".com", "a" * 41 + ".com"]
    assert len({user_name(tenant_name(host)) for host in hosts}) == len(hosts)
    assert user_name("example.com") == "site-example-com"


@given(HOSTS, HOSTS)
def test_two_names_never_have_one_user(one: str, other: str) -> None:
    try:
        first, second = tenant_name(one), tenant_name(other)
    except TenantError:
        return
    assert (user_name(first) == user_name(second)) == (first == second)
    assert len(user_name(first)) <= MOST_USER


@given(st.text(max_size=40))
def test_a_name_is_its_own_name_and_a_plain_file_name(host: str) -> None:
    try:
        name = tenant_name(host)
    except TenantError:
        return
    assert tenant_name(name) == name
    assert name.isascii()
    assert not set(name) & set("/\\\0 \n_~%")
    assert ".." not in name
    assert name[0] not in ".-"
