"""Secrets in the words of a command do not reach the audit log, and plain words do."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.audit.redact import redacted, secrets_of
from ringfence.audit.signs import LONGEST, MOST_WORDS, may_be_secret, may_hold_secrets

SECRET = "s3cr3t-Value_9000"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ"
HIDDEN = [
    ["curl", "-u", f"name:{SECRET}", "https://example.org"],
    ["curl", f"--user=name:{SECRET}"],
    ["curl", "-H", f"Authorization: Bearer {SECRET}", "https://example.org"],
    ["curl", "-H", f"X-Api-Key: {SECRET}"],
    ["curl", f"https://name:{SECRET}@example.org/x"],
    ["psql", f"postgresql://name:p@{SECRET}@example.org/x"],
    ["curl", f"https://example.org/?access_token={SECRET}&x=1"],
    ["git", "clone", f"https://{TOKEN}@github.com/a/b"],
    ["tool", "--token", SECRET],
    ["tool", f"--api-key={SECRET}"],
    ["tool", "--db-password", SECRET, "--verbose"],
    ["env", f"AWS_SECRET_ACCESS_KEY={SECRET}", "aws", "s3", "ls"],
    ["sh", "-c", f"export NPM_TOKEN={SECRET}; npm publish"],
    ["sh", "-c", f"""curl -d '{{"password": "{SECRET}"}}' https://example.org"""],
    ["sh", "-c", f"mysql -u root -p{SECRET} db"],
    ["mysql", "-uroot", f"-p{SECRET}"],
    ["sshpass", f"-p{SECRET}", "ssh", "host"],
    ["aws", "configure", "set", "aws_secret_access_key", SECRET],
    ["npm", "config", "set", "//registry.npmjs.org/:_authToken", SECRET],
    ["curl", "--proxy-user", f"name:{SECRET}", "https://example.org"],
    ["curl", "-H", f"Cookie: a=b; session={SECRET}"],
    ["curl", f"--cookie=session={SECRET}"],
    ["sh", "-c", f"curl --cookie 'a=b; session={SECRET}' https://example.org"],
    ["sh", "-c", f"curl -H 'Set-Cookie: session={SECRET}' -v"],
    ["sh", "-c", f"sshpass -p {SECRET} ssh host"],
    ["echo", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----"],
]


@pytest.mark.parametrize("words", HIDDEN, ids=lambda words: " ".join(words)[:40])
def test_a_secret_is_taken_out(words: list[str]) -> None:
    assert SECRET in " ".join(words) or TOKEN in " ".join(words)
    said = " ".join(redacted(words))

    assert SECRET not in said
    assert TOKEN not in said
    assert words[0] in said


@pytest.mark.parametrize(
    "token",
    [
        TOKEN,
        "github_pat_11ABCDEFG0abcdefghij",
        "glpat-abcdefghij0123456789",
        "sk-proj-abcdefghij0123456789",
        "xoxb-1234567890-abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "npm_abcdefghij0123456789",
    ],
)
def test_a_token_of_a_known_form_is_taken_out_wherever_it_stands(token: str) -> None:
    assert token not in " ".join(redacted(["tool", token, f"x={token}", f"sh -c 'x {token}'"]))


@pytest.mark.parametrize(
    "words",
    [
        ["npm", "test"],
        ["git", "commit", "--author=A U Thor", "-m", "the key to it all"],
        ["git", "checkout", "0123456789abcdef0123456789abcdef01234567"],
        ["sh", "-c", "make -j8 && ./run --user name --port 80"],
        ["pytest", "-k", "test_tokens", "-p", "no:randomly"],
        ["ls", "/home/name/.ssh/keys"],
        ["curl", "-u", "name", "https://example.org/a:b"],
        ["git", "config", "set", "user.name", "me"],
        ["bake", "a", "cookie", "--cookies", "all"],
        ["psql", "-U", "name", "db"],
        ["sh", "-c", "grep -rn 'Set-Cookie: ' src | sort; git push"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_plain_words_stay(words: list[str]) -> None:
    assert list(redacted(words)) == words


@pytest.mark.parametrize("begin", ["echo cookie:", "curl --cookie"])
@pytest.mark.parametrize("then", ["; evil -x", " | evil"])
def test_a_cookie_hides_nothing_that_a_line_runs_behind_it(begin: str, then: str) -> None:
    assert redacted(["sh", "-c", f"{begin} a=b; c=d{then}"])[2] == f"{begin} [redacted]{then}"


def test_the_value_of_a_secret_variable_is_taken_out_wherever_it_stands() -> None:
    secrets = secrets_of({"GITHUB_TOKEN": SECRET, "HOME": "/home/name", "EMPTY_TOKEN": "", "SHORT_KEY": "abc"})

    assert redacted(["tool", f"x{SECRET}y", "/home/name", "abc"], secrets) == (
        "tool",
        "x[GITHUB_TOKEN]y",
        "/home/name",
        "abc",
    )


PIECES = [*(word for words in HIDDEN for word in words), "a", " ", "=", ":", "-", "@", "x" * 40, "eyJabcdefgh.ijklmnop"]


@given(st.lists(st.text() | st.lists(st.sampled_from(PIECES), max_size=4).map("".join), min_size=1, max_size=5))
def test_what_is_changed_has_a_sign(words: list[str]) -> None:
    environ = {"MY_TOKEN": "another-secret", "SOME_DSN": "x" * 40, "HOME": "/home/name"}
    changed = redacted(words, secrets_of(environ)) != tuple(words)

    assert not changed or may_hold_secrets(words, environ)


@given(st.text(min_size=1))
def test_a_secret_variable_has_a_sign(name: str) -> None:
    assert not secrets_of({name: "long enough"}) or may_be_secret(name)


@pytest.mark.parametrize("word", ["--credent\u0131al=hunter2", "bas\u0131c abcdefghijkl", "--to\u212aen hunter2"])
def test_letters_that_a_pattern_takes_for_those_of_a_sign_have_it(word: str) -> None:
    """Without regard to case a pattern takes a Turkish i for an i, and the Kelvin for a k."""
    assert redacted([word]) != (word,)
    assert may_hold_secrets([word], {})


@pytest.mark.parametrize("name", ["MY_\u212aEY", "CREDENT\u0130AL"])
def test_so_have_those_in_names(name: str) -> None:
    assert secrets_of({name: "long enough"})
    assert may_be_secret(name)


def test_most_commands_have_no_sign() -> None:
    for words in (["npm", "test"], ["git", "status"], ["sh", "-c", "make -j8 && ls -la"], ["pytest", "-q", "-x"]):
        assert not may_hold_secrets(words, {"HOME": "/home/name", "MY_TOKEN": "another-secret"})


def test_long_commands_are_cut() -> None:
    said = redacted(["x" * 100_000, *["y"] * 1000])

    assert len(said) == MOST_WORDS + 1
    assert len(said[0]) < LONGEST + 40


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8))
def test_any_words_can_be_looked_at(words: list[str]) -> None:
    assert len(redacted(words)) == len(words)


@pytest.mark.parametrize("text", ["a", "-", "mysql ", "token", "x:", "://", "-u ", "--", "auth:", "-----BEGIN "])
def test_no_text_takes_long(text: str) -> None:
    begun = time.process_time()
    redacted([text * (200_000 // len(text))])

    assert time.process_time() - begun < 20
