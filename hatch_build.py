"""Build hook: compile the enactor into the wheel, with its digest beside it.

The program is freestanding, so one static file serves every libc, and the wheel is tagged for the machine alone.
Without a C compiler the wheel is pure Python: the Python enactor then serves, and `ringfence doctor` says so.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/ringfence/enforce/enact.c")

CFLAGS = (
    "-std=c11",
    "-Os",
    "-ffreestanding",
    "-nostdlib",
    # Plain static, not static-pie: a static-pie without a libc has nobody to apply its relocations, and the first
    # table of strings makes some. It also starts some 8 µs sooner.
    "-static",
    "-fno-pie",
    "-no-pie",
    "-fno-stack-protector",  # the canary lives in thread-local storage, which nobody sets up
    "-fno-asynchronous-unwind-tables",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-s",
    "-Wl,-z,noexecstack",
    "-Wl,--build-id=none",
)

# e_machine of an ELF header: the tag follows what was compiled, so a cross compiler in $CC is tagged rightly.
MACHINES = {62: "x86_64", 183: "aarch64"}


def compile_program(source: Path, compiler: str) -> tuple[bytes, str]:
    """The program made from `source`, and the machine it is for."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "enact")
        # Relative, from the source's own directory: no path of this machine can get into the bytes.
        command = [*compiler.split(), *CFLAGS, "-o", str(program), source.name]
        subprocess.run(command, cwd=source.parent, check=True)
        image = program.read_bytes()
    return image, MACHINES[int.from_bytes(image[18:20], "little")]


def place(path: Path, content: bytes, mode: int) -> None:
    """Put `content` at `path` in one move, so that a process running the old program is not disturbed."""
    if path.is_file() and path.read_bytes() == content and path.stat().st_mode & 0o777 == mode:
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(mode)
    fresh.replace(path)


def build(root: Path) -> str:
    """Build the program in the tree at `root`; the wheel's tag, which is `py3-none-any` when there is none."""
    source = root / SOURCE
    program, digest = source.with_suffix(""), source.with_suffix(".sha256")
    missing = what_is_missing(source)
    if missing:
        # A program left over from another time would be one that this source did not make.
        program.unlink(missing_ok=True)
        digest.unlink(missing_ok=True)
        warn(missing)
        return "py3-none-any"
    image, machine = compile_program(source, os.environ.get("CC") or "cc")
    place(program, image, 0o755)
    place(digest, hashlib.sha256(image).hexdigest().encode() + b"\n", 0o644)
    return f"py3-none-linux_{machine}"


def what_is_missing(source: Path) -> str:
    """Why there can be no program here, or nothing."""
    compiler = (os.environ.get("CC") or "cc").split()[0]
    if sys.platform != "linux":
        return f"the enactor is for Linux, this is {sys.platform}"
    if os.uname().machine not in MACHINES.values():
        return f"the enactor knows {', '.join(MACHINES.values())}, this is {os.uname().machine}"
    if not source.is_file():
        return f"{source} is missing"
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler!r} not found)"
    return ""


def warn(why: str) -> None:
    print(f"ringfence: WARNING: built without the enactor program: {why}", file=sys.stderr)
    print("ringfence: WARNING: the Python enactor will serve: slower, and no private view of files", file=sys.stderr)


class EnactorBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for a wheel, and for an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["tag"] = build(Path(self.root))
        build_data["pure_python"] = build_data["tag"] == "py3-none-any"
