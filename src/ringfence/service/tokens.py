"""Tokens: who somebody is and which workspaces are theirs, signed with EdDSA by a key that has an end.

One algorithm, three headers and no others, claims that are all there and of one type each. The key is found by its id
among those that we hold; an id is never a path or an address.
"""

import asyncio
import json
import secrets
import time

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .database import Database, Rows
from .trouble import Trouble

ALGORITHM = "EdDSA"
ISSUER, AUDIENCE = "ringfence", "ringfence-service"
QUERY = "select body from keys"
LIFETIME = 12 * 3600
SIGNS_FOR = 30 * 24 * 3600
LEEWAY = 5
MOST_BYTES = 1 << 15  # as many workspaces as may be, of the longest names, take half of it
MOST_WORKSPACES = 64
CLAIMS = ("iss", "aud", "sub", "iat", "nbf", "exp", "jti", "workspaces", "stamp")


class Key(msgspec.Struct, frozen=True):
    """A key, until when it signs, and until when what it signed is believed."""

    kid: str
    seed: bytes
    signs_until: int
    ends: int


class Claims(msgspec.Struct, frozen=True):
    """What a token says."""

    account: str
    workspaces: tuple[str, ...]
    ends: int
    stamp: str  # of the password that it was given for; with another password it is worth nothing


def make_key(now: int) -> Key:
    """A new key."""
    return Key(secrets.token_hex(8), secrets.token_bytes(32), now + SIGNS_FOR, now + SIGNS_FOR + LIFETIME)


def _is_made(key: Key, now: float) -> bool:
    """Whether it is not of a time to come: one that a wrong clock dated would sign until then, whatever followed it."""
    return key.signs_until <= now + SIGNS_FOR + LEEWAY


class Keys:
    """The keys of a service, in its database: every host that has that knows what the others signed."""

    def __init__(self, database: Database) -> None:
        self._database, self._keys = database, dict[str, Key]()
        self._looked, self._looking = 0.0, asyncio.Lock()
        self._take(database.ask(QUERY))

    def _take(self, rows: Rows) -> None:
        self._keys = {key.kid: key for key in (msgspec.json.decode(row[0], type=Key) for row in rows)}

    def find(self, kid: str, now: float) -> Key | None:
        """The key with an id, if what it signed is still believed."""
        key = self._keys.get(kid)
        return key if key is not None and now < key.ends and _is_made(key, now) else None

    async def look_again(self) -> None:
        """Another process may have made a key; that is looked for once a second at most, and others wait for it."""
        async with self._looking:
            if time.monotonic() - self._looked >= 1:
                self._take(await self._database.run(QUERY))
                self._looked = time.monotonic()

    def current(self, now: float) -> Key:
        """The key that signs now; one that is too old is followed by a new one."""
        signing = [key for key in self._keys.values() if now < key.signs_until and _is_made(key, now)]
        return max(signing, key=lambda key: key.signs_until) if signing else self.rotate(int(now))

    def rotate(self, now: int) -> Key:
        """Sign with a new key from now on."""
        key = make_key(now)
        add = "insert into keys values (?, ?) on conflict do nothing"
        self._database.ask(add, key.kid, msgspec.json.encode(key).decode())
        self._keys[key.kid] = key
        return key


def issue(keys: Keys, account: str, workspaces: tuple[str, ...], stamp: str) -> tuple[str, int]:
    """A token for an account, and when it ends."""
    begun = int(time.time())
    key = keys.current(begun)
    ends = begun + LIFETIME
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": account, "iat": begun, "nbf": begun, "exp": ends}
    claims |= {"jti": secrets.token_hex(8), "workspaces": list(workspaces), "stamp": stamp}
    private = Ed25519PrivateKey.from_private_bytes(key.seed)
    return jwt.encode(claims, private, ALGORITHM, headers={"kid": key.kid}), ends


def read(keys: Keys, token: str) -> Claims:
    """What a token says, if it is one of ours, whole, and of this time."""
    wrong = Trouble("token_invalid", "the token is not one of ours, or is over")
    if len(token) > MOST_BYTES or not token.isascii() or token.count(".") != 2:
        raise wrong
    at = time.time()
    try:
        header, claims = (
            json.loads(jwt.utils.base64url_decode(part), object_pairs_hook=_once) for part in token.split(".")[:2]
        )
        if {*header} != {"alg", "kid", "typ"} or header["alg"] != ALGORITHM or header["typ"] != "JWT":
            raise wrong
        key = keys.find(header["kid"], at) if isinstance(header["kid"], str) else None
        if key is None or {*claims} != {*CLAIMS}:
            raise wrong
        public = Ed25519PrivateKey.from_private_bytes(key.seed).public_key()
        jwt.decode(
            token,
            public,
            [ALGORITHM],
            {"verify_exp": False, "verify_nbf": False, "verify_iat": False},
            audience=AUDIENCE,
            issuer=ISSUER,
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise wrong from None
    times = [claims[name] for name in ("iat", "nbf", "exp")]
    if not all(type(value) is int for value in times) or not times[0] == times[1] <= at + LEEWAY < times[2] + LEEWAY:
        raise wrong
    if times[2] > times[0] + LIFETIME:
        raise wrong
    names = claims["workspaces"]
    if claims["aud"] != AUDIENCE or not isinstance(names, list):
        raise wrong
    if not isinstance(claims["sub"], str) or not isinstance(claims["stamp"], str):
        raise wrong
    if len(names) > MOST_WORKSPACES or not all(isinstance(name, str) for name in names):
        raise wrong
    return Claims(claims["sub"], tuple(names), times[2], claims["stamp"])


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A name that comes twice would be read in two ways by two readers."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found
