"""schemathesis against the OpenAPI document: whatever is asked, the service never fails. `make schema` asks longer."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.looking import free_port
from tests.tenants.conftest import Hosting
from tests.tenants.serving import PASSWORD, living
from tests.tenants.spawning import served

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed")]
EXAMPLES = os.environ.get("RINGFENCE_SCHEMA_EXAMPLES", "2")  # for each request


def post(url: str, document: object) -> dict[str, str]:
    asked = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        found: dict[str, str] = json.load(answer)
        return found


@pytest.mark.timeout(3600)
def test_nothing_that_is_asked_makes_it_fail(hosting: Hosting, tmp_path: Path) -> None:
    name, port = hosting.create("a").name, free_port()
    base = f"http://127.0.0.1:{port}"
    with served(hosting) as spawner:
        with living(spawner, {"alice": (name,)}, "", "--listen", f"127.0.0.1:{port}", "--host", "127.0.0.1"):
            with urllib.request.urlopen(f"{base}/openapi.json") as answer:
                text = answer.read().decode()
            # The one workspace that there is: another is refused before anything is looked at.
            document = json.loads(re.sub(r'("name":"workspace",[^}]*"schema":{)', rf'\1"enum":["{name}"],', text))
            schema = tmp_path / "openapi.json"
            schema.write_text(json.dumps(document))
            token = post(f"{base}/api/login", {"account": "alice", "password": PASSWORD})["token"]
            words = [
                str(Path(sys.executable).with_name("schemathesis")),
                "--config-file",
                os.devnull,
                "run",
                str(schema),
            ]
            words += ["--url", base, "-H", f"Authorization:Bearer {token}", "-c", "not_a_server_error", "-n", EXAMPLES]
            words += ["--rate-limit", "45/s", "--no-shrink", "--continue-on-failure", "--generation-database", "none"]
            words += ["--phases", "examples,coverage,fuzzing" if int(EXAMPLES) > 2 else "fuzzing", "--warnings", "off"]
            asked = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
            assert asked.returncode == 0, asked.stdout[-6000:] + asked.stderr[-2000:]
            generated = re.search(r"(\d+) generated", asked.stdout)
            assert generated, asked.stdout
            assert int(generated[1]) >= len(document["paths"]), asked.stdout
            sys.stdout.write(asked.stdout[-600:])
