"""Where the service listens: on a socket of the machine, on its own addresses, and on others by TLS alone."""

import pytest

from ringfence.cli.service import _listening
from ringfence.model import UsageError


@pytest.mark.parametrize(
    "words",
    [
        ["0.0.0.0:443"],
        ["192.0.2.1:8443"],
        ["localhost:80"],
        ["[::]:443"],
        ["127.0.0.1:8443", "--certificate"],
        ["0.0.0.0:443", "--key"],
        ["443"],
        [":443"],
        ["127.0.0.1:x"],
        ["127.0.0.1:99999"],
        ["127.0.0.1:²"],
    ],
)
def test_nothing_leaves_the_machine_without_tls(words: list[str]) -> None:
    address, *with_ = words
    with pytest.raises(UsageError) as caught:
        _listening({"--listen": [address], **{option: ["file.pem"] for option in with_}})
    assert caught.value.place == "--listen"


def test_tls_or_the_machines_own_address() -> None:
    both = {"--certificate": ["c.pem"], "--key": ["k.pem"]}
    assert _listening({"--listen": ["0.0.0.0:443"], **both})["ssl_certfile"] == "c.pem"
    assert _listening({"--listen": ["127.0.0.1:80"]}) == {"host": "127.0.0.1", "port": 80}
    assert _listening({"--listen": ["[::1]:80"]}) == {"host": "::1", "port": 80}
