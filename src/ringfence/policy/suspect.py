"""What a command's own words ask for: paths and hosts named in its arguments.

Pure, and only for explaining a failure afterwards; nothing is decided by it. A word after `>` is written, any other is
read. What a program does beyond its arguments is not seen here.
"""

_ENDS = " \t\n;|&()\"'`=,"


def words(text: str) -> list[tuple[str, str]]:
    """(access, word) for each word of an argument that may be a shell's line."""
    found: list[tuple[str, str]] = []
    access, word = "read", ""
    for char in text + " ":
        if char in "<>" or char in _ENDS:
            if word:
                found.append((access, word))
                access, word = "read", ""
            if char == ">":
                access = "write"
            elif char not in " \t":
                access = "read"
        else:
            word += char
    return found


def suspects(argv: tuple[str, ...], cwd: str, home: str) -> list[tuple[str, str]]:
    """(access, absolute path) or ("connect", host) for everything the arguments name; each once, in order."""
    found: dict[tuple[str, str], None] = {}
    for argument in argv[1:64]:
        for access, word in words(argument[:65536]):
            scheme, mark, rest = word.partition("://")
            if mark and scheme.isalpha():
                found["connect", f"{scheme}://{rest.split('/')[0]}"] = None
            elif word == "~" or word.startswith("~/"):
                found[access, home + word[1:]] = None
            elif word.startswith(("/", "./", "../")) or (access == "write" and not word.startswith("&")):
                found[access, word if word.startswith("/") else f"{cwd}/{word}"] = None
    return list(found)
