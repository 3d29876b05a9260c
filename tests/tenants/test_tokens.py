"""Tokens: every known trick with one is refused, and an honest one is read."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.requests import Request

from ringfence.service import handlers, tokens
from ringfence.service.accounts import Accounts
from ringfence.service.database import Database
from ringfence.service.desk import Service
from ringfence.service.trouble import Trouble

NOW = int(time.time())
CLAIMS: dict[str, Any] = {"iss": tokens.ISSUER, "aud": tokens.AUDIENCE, "sub": "a", "iat": NOW, "nbf": NOW}
CLAIMS |= {"exp": NOW + 36_000, "jti": "1", "workspaces": ["test"], "stamp": "s"}


@pytest.fixture
def keys(tmp_path: Path) -> tokens.Keys:
    return tokens.Keys(Database(f"{tmp_path}/own/service.db"))


def part(document: object) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def signed(key: tokens.Key, header: object, claims: object) -> str:
    """What a holder of the key could sign, however odd: a fault must be refused for itself, not for its signature."""
    message = f"{part(header)}.{part(claims)}"
    private = Ed25519PrivateKey.from_private_bytes(key.seed)
    return f"{message}.{base64.urlsafe_b64encode(private.sign(message.encode())).rstrip(b'=').decode()}"


def public_pem(key: tokens.Key) -> bytes:
    public = Ed25519PrivateKey.from_private_bytes(key.seed).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def with_hmac(key: tokens.Key, algorithm: str, secret: bytes) -> str:
    message = f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': key.kid})}.{part(CLAIMS)}"
    made = hmac.new(secret, message.encode(), hashlib.sha256).digest()
    return f"{message}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def good(key: tokens.Key, **changes: object) -> dict[str, object]:
    return {"alg": "EdDSA", "typ": "JWT", "kid": key.kid, **changes}


Make = Callable[[tokens.Key], str]
HEADERS: dict[str, Make] = {
    "alg none": lambda key: f"{part(good(key, alg='none'))}.{part(CLAIMS)}.",
    "alg None, signed": lambda key: signed(key, good(key, alg="None"), CLAIMS),
    "no signature": lambda key: signed(key, good(key), CLAIMS).rpartition(".")[0] + ".",
    "HS256 with the public key": lambda key: with_hmac(key, "HS256", public_pem(key)),
    "HS256 with nothing": lambda key: with_hmac(key, "HS256", b""),
    "alg as a list": lambda key: signed(key, good(key, alg=["EdDSA"]), CLAIMS),
    "alg twice": lambda key: signed(key, f'{{"alg":"none","alg":"EdDSA","typ":"JWT","kid":"{key.kid}"}}', CLAIMS),
    "kid is a path": lambda key: signed(key, good(key, kid="../../dev/null"), CLAIMS),
    "kid is SQL": lambda key: signed(key, good(key, kid="' or 1=1 --"), CLAIMS),
    "kid is a list": lambda key: signed(key, good(key, kid=[key.kid]), CLAIMS),
    "kid of nobody": lambda key: signed(key, good(key, kid="0" * 16), CLAIMS),
    "no kid": lambda key: signed(key, {"alg": "EdDSA", "typ": "JWT"}, CLAIMS),
    "jku": lambda key: signed(key, good(key, jku="http://127.0.0.1/keys"), CLAIMS),
    "x5u": lambda key: signed(key, good(key, x5u="http://127.0.0.1/keys"), CLAIMS),
    "jwk": lambda key: signed(key, good(key, jwk={"kty": "OKP"}), CLAIMS),
    "crit": lambda key: signed(key, good(key, crit=["b64"], b64=False), CLAIMS),
    "typ": lambda key: signed(key, good(key, typ="JWE"), CLAIMS),
    "header is a list": lambda key: signed(key, [good(key)], CLAIMS),
    "another key": lambda key: signed(msgspec.structs.replace(tokens.make_key(NOW), kid=key.kid), good(key), CLAIMS),
    "four parts": lambda key: signed(key, good(key), CLAIMS) + ".x",
    "two parts": lambda key: signed(key, good(key), CLAIMS).rpartition(".")[0],
    "padding": lambda key: signed(key, good(key), CLAIMS) + "====",
    "not ASCII": lambda key: signed(key, good(key), CLAIMS) + "é",
    "deep": lambda key: signed(key, good(key), "[" * 5000),
}
WRONG_CLAIMS: dict[str, object] = {
    "expired": CLAIMS | {"iat": NOW - 100, "nbf": NOW - 100, "exp": NOW - 60},
    "future": CLAIMS | {"iat": NOW + 7200, "nbf": NOW + 7200, "exp": NOW + 7260},
    "not before": CLAIMS | {"nbf": NOW + 7200, "exp": NOW + 7260},
    "exp as text": CLAIMS | {"exp": str(NOW + 60)},
    "exp beyond a lifetime": CLAIMS | {"exp": CLAIMS["iat"] + tokens.LIFETIME + 1},
    "exp as a float": CLAIMS | {"exp": 1e300},
    "exp as true": CLAIMS | {"exp": True},
    "exp as null": CLAIMS | {"exp": None},
    "another audience": CLAIMS | {"aud": "other"},
    "an audience among others": CLAIMS | {"aud": ["other", tokens.AUDIENCE]},
    "another issuer": CLAIMS | {"iss": "other"},
    "issuer as a list": CLAIMS | {"iss": [tokens.ISSUER]},
    "workspaces as text": CLAIMS | {"workspaces": "test"},
    "workspaces of lists": CLAIMS | {"workspaces": [["test"]]},
    "workspaces by name": CLAIMS | {"workspaces": {"test": True}},
    "too many workspaces": CLAIMS | {"workspaces": ["test"] * 65},
    "subject as a number": CLAIMS | {"sub": 1},
    "stamp as a number": CLAIMS | {"stamp": 1},
    "one claim more": CLAIMS | {"admin": True},
    "a claim twice": json.dumps(CLAIMS)[:-1] + ', "sub": "root"}',
    "a list of claims": [CLAIMS],
    "nothing": {},
} | {f"no {name}": {key: value for key, value in CLAIMS.items() if key != name} for name in CLAIMS}


def test_an_honest_token_is_read(keys: tokens.Keys) -> None:
    token, ends = tokens.issue(keys, "alice", ("test",), "s")
    assert tokens.read(keys, token) == tokens.Claims("alice", ("test",), ends, "s")
    key = keys.current(NOW)
    assert tokens.read(keys, signed(key, good(key), CLAIMS)).workspaces == ("test",)


def test_what_an_account_may_open_fits_into_its_token(keys: tokens.Keys, tmp_path: Path) -> None:
    """Or it would log in, and every request would be refused."""
    names = tuple(f"{number:03}.{'a' * 60}.{'b' * 60}.{'c' * 60}.{'d' * 10}" for number in range(65))
    known = Accounts(Database(f"{tmp_path}/accounts/service.db"))
    known.put("alice", "correct horse", names[:64])
    opened, stamp = asyncio.run(known.opened("alice"))
    token, _ = tokens.issue(keys, "alice", opened, stamp)
    assert tokens.read(keys, token).workspaces == names[:64]
    with pytest.raises(Trouble, match="at most 64"):
        known.put("alice", "correct horse", names)
    with pytest.raises(Trouble, match="not one of ours"):
        tokens.read(keys, tokens.issue(keys, "a" * tokens.MOST_BYTES, opened, stamp)[0])


@pytest.mark.parametrize("trick", HEADERS)
def test_tricks_with_the_header_are_refused(keys: tokens.Keys, trick: str) -> None:
    with pytest.raises(Trouble) as caught:
        tokens.read(keys, HEADERS[trick](keys.current(NOW)))
    assert caught.value.code == "token_invalid"


@pytest.mark.parametrize("trick", WRONG_CLAIMS)
def test_tricks_with_the_claims_are_refused_although_signed(keys: tokens.Keys, trick: str) -> None:
    key = keys.current(NOW)
    with pytest.raises(Trouble) as caught:
        tokens.read(keys, signed(key, good(key), WRONG_CLAIMS[trick]))
    assert caught.value.code == "token_invalid"


def test_a_reader_without_these_checks_takes_some_of_them(keys: tokens.Keys) -> None:
    """The tricks are real: the library alone, told the algorithm and the audience, lets these through."""
    key = keys.current(NOW)
    public = public_pem(key)
    claims = ("an audience among others", "one claim more", "a claim twice", "no jti", "too many workspaces")
    taken = [HEADERS[trick](key) for trick in ("jku", "typ", "jwk")]
    taken += [signed(key, good(key), WRONG_CLAIMS[trick]) for trick in claims]

    assert all(jwt.decode(token, public, ["EdDSA"], audience=tokens.AUDIENCE)["sub"] for token in taken)


def test_keys_are_followed_by_others_and_end(keys: tokens.Keys, tmp_path: Path) -> None:
    old = keys.current(NOW)
    token, _ = tokens.issue(keys, "a", ("test",), "s")
    new = keys.rotate(NOW + 1)
    assert keys.current(NOW + 2).kid == new.kid != old.kid
    assert tokens.read(keys, token).account == "a"
    assert tokens.Keys(Database(f"{tmp_path}/own/service.db")).find(old.kid, NOW) == old  # another process has them too
    assert keys.find(old.kid, old.ends) is None
    later = old.signs_until + 10
    assert keys.current(later).kid not in (old.kid, new.kid) or later < new.signs_until
    assert {os.stat(tmp_path / "own" / name).st_mode & 0o777 for name in os.listdir(tmp_path / "own")} == {0o600}


def test_a_key_of_a_time_to_come_is_none_until_then(keys: tokens.Keys) -> None:
    """A clock that was wrong once would have it sign for as long as that, and `rotate` would bring nothing."""
    far = keys.current(NOW + 10 * tokens.SIGNS_FOR)
    assert keys.find(far.kid, NOW) is None
    assert keys.current(NOW).kid != far.kid
    assert keys.rotate(NOW + 1) == keys.current(NOW + 1)
    assert keys.find(far.kid, NOW + 10 * tokens.SIGNS_FOR) == far


def test_keys_that_others_could_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    with pytest.raises(Trouble):
        tokens.Keys(Database(f"{tmp_path}/own/service.db"))


def test_a_service_that_lives_signs_with_the_key_that_somebody_brought(tmp_path: Path) -> None:
    async def act() -> tuple[str, str]:
        database = Database(f"{tmp_path}/state/service.db")
        service = Service(database, "/nowhere")
        service.accounts.put("alice", "long enough", ())
        tokens.Keys(database).rotate(int(time.time()) - 1)
        await service.keys.look_again()
        brought = tokens.Keys(database).rotate(int(time.time()) + 1)
        service.keys._looked = -1.0  # a second later

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b'{"account": "alice", "password": "long enough"}'}

        answer = await handlers.log_in(service, Request({"type": "http", "headers": []}, receive))
        token = msgspec.json.decode(bytes(answer.body))["token"]
        await service.close()
        return str(jwt.get_unverified_header(token)["kid"]), brought.kid

    signed_by, brought = asyncio.run(act())
    assert signed_by == brought
