"""What of a command's output may reach a person's terminal: text and its looks, and nothing that reaches further.

A terminal does what the bytes say. Some sequences reach beyond the screen: they fill the clipboard (OSC 52), set a
title, put text on keys, command the terminal (kitty's remote control), show notifications, print, tell what the screen
holds, or make the terminal answer, and with nobody there to read the answer it is typed into the person's shell. Only
strings that are known to stay on the screen pass; at an interactive run colours, sixels and questions besides.
Wherever the bytes are cut, the result is the same. What is left of a broken sequence is dropped too: with what follows
it could make a whole one.
"""

import re
from collections.abc import Callable

_PLAIN = re.compile(
    rb"(?:[\x00-\x04\x06-\x17\x19\x1c-\x7f]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"
    rb"|[\xf0-\xf4][\x80-\xbf]{3}|[\xa0-\xbf\xf5-\xff])+"
)
_BEGUN = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
ESC, CAN, SUB, ENQ, DEL, CSI, OSC, DCS = 0x1B, 0x18, 0x1A, 0x05, 0x7F, 0x5B, 0x5D, 0x50
_STRINGS = b"]PX^_k"  # OSC, DCS, SOS, PM, APC, and the title of screen and tmux
_LONGEST = 256  # of a sequence that is not a string, and of what says which string it is

# By the number of an OSC: hyperlinks; and for who is interactive colours and the shape of the pointer.
_HARMLESS = {b"8"}
_COLOURS = {b"4", b"5", b"8", b"22", b"104", b"105", *(b"%d" % n for n in (*range(10, 20), *range(110, 120)))}
# By what a DCS begins with: sixels, DECRQSS, XTGETTCAP, and updates in one go. Not keys, not `@kitty-cmd`.
_DEVICE = re.compile(rb"(?:[0-9;]*|[$+])q|=[12]s")
# The last byte of a CSI that makes the terminal answer, print, or act on its window.
_ASKING = b"cnitxypquR"


class Escapes:
    """The filter of one stream. `strict` lets only what is harmless pass."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._rest = b""  # the beginning of a character
        self._sequence = bytearray()  # begun, and not decided yet
        self._state: Callable[[bytes, int, bytearray], int] = self._text
        self._is_osc = False

    def __call__(self, data: bytes) -> bytes:
        data, out, at = self._rest + data, bytearray(), 0
        cut = _BEGUN.search(data, max(0, len(data) - 3))
        self._rest = data[cut.start() :] if cut else b""
        data = data[: len(data) - len(self._rest)]
        while at < len(data):
            at = self._state(data, at, out)
        return bytes(out)

    def _text(self, data: bytes, at: int, out: bytearray) -> int:
        found = _PLAIN.match(data, at)
        if found:
            out += found[0]
            return found.end()
        byte, size = _control(data, at)
        if byte == ENQ and self._strict:
            return at + size
        if byte == ESC or 0x80 <= byte <= 0x9F:
            return self._begin(byte, at + size)
        out += data[at : at + size]
        return at + size

    def _begin(self, byte: int, at: int) -> int:
        """A sequence begins; what an unfinished one held is forgotten."""
        self._end()
        if byte == ESC:
            self._sequence += b"\x1b"
            self._state = self._escape
        elif byte - 0x40 == CSI or byte - 0x40 in _STRINGS:  # one byte for two; the other such are not needed
            self._sequence += b"\x1b"
            self._decide(byte - 0x40)
        return at

    def _decide(self, byte: int) -> None:
        self._sequence.append(byte)
        self._state = self._csi if byte == CSI else self._name

    def _end(self) -> None:
        self._sequence.clear()
        self._state = self._text

    def _interrupted(self, data: bytes, at: int, out: bytearray) -> tuple[int, int, bool]:
        """The next byte of a sequence, and whether it was something else that came between."""
        byte, size = _control(data, at)
        if byte == ESC or 0x80 <= byte <= 0x9F:
            self._begin(byte, at)
        elif byte in (CAN, SUB) or byte > DEL or len(self._sequence) > _LONGEST:
            self._end()
        elif byte < 0x20:  # done at once, in the middle of the sequence
            if byte != ENQ or not self._strict:
                out.append(byte)
        elif byte != DEL:
            return byte, size, False
        return byte, size, True

    def _escape(self, data: bytes, at: int, out: bytearray) -> int:
        byte, size, other = self._interrupted(data, at, out)
        if other:
            return at + size
        if len(self._sequence) == 1 and (byte == CSI or byte in _STRINGS):
            self._decide(byte)
            return at + size
        self._sequence.append(byte)
        if byte >= 0x30:
            if not (self._strict and byte == 0x5A):  # DECID asks who the terminal is
                out += self._sequence
            self._end()
        return at + size

    def _csi(self, data: bytes, at: int, out: bytearray) -> int:
        byte, size, other = self._interrupted(data, at, out)
        if other:
            return at + size
        self._sequence.append(byte)
        if byte >= 0x40:
            if self._is_shown(byte):
                out += self._sequence
            self._end()
        return at + size

    def _is_shown(self, byte: int) -> bool:
        if byte == 0x69 or self._sequence.endswith(b"*y"):  # to a printer; what is on the screen (DECRQCRA)
            return False
        return not self._strict or byte not in _ASKING or self._sequence.endswith(b" q")  # the shape of the cursor

    def _name(self, data: bytes, at: int, out: bytearray) -> int:
        """Which string it is: up to the first byte that is no digit or letter of its name."""
        kind, name = self._sequence[1], bytes(self._sequence[2:])
        byte, size = _control(data, at)
        if kind == OSC:
            more = 0x30 <= byte <= 0x39 or (not name and byte in b"lLI")
        else:
            more = kind == DCS and 0x20 <= byte < DEL and not name[-1:] > b"?"  # up to its last byte
        if more and len(self._sequence) < _LONGEST:
            self._sequence.append(byte)
            return at + size
        if self._passes(kind, name):
            out += self._sequence
            self._state = self._passed
        else:
            self._state = self._dropped
        self._sequence.clear()
        self._is_osc = kind == OSC
        return at

    def _passes(self, kind: int, name: bytes) -> bool:
        if kind == OSC:
            return name in _HARMLESS if self._strict else name.lstrip(b"0") in _COLOURS
        return not self._strict and kind == DCS and _DEVICE.fullmatch(name) is not None

    def _passed(self, data: bytes, at: int, out: bytearray) -> int:
        return self._string(data, at, out)

    def _dropped(self, data: bytes, at: int, _out: bytearray) -> int:
        return self._string(data, at, bytearray())

    def _string(self, data: bytes, at: int, out: bytearray) -> int:
        found = _PLAIN.match(data, at)
        if found:
            bell = data.find(b"\x07", at, found.end()) if self._is_osc else -1
            end = found.end() if bell < 0 else bell + 1
            out += data[at:end]
            if bell >= 0:
                self._end()
            return end
        byte, size = _control(data, at)
        if byte == ENQ:
            return at + size
        if byte == 0x9C:
            out += b"\x1b\\"
            self._end()
        elif byte == ESC or 0x80 <= byte <= 0x9F:
            self._state = self._perhaps_end_passed if self._state == self._passed else self._perhaps_end
            if byte != ESC:
                if self._state == self._perhaps_end_passed:
                    out += b"\x1b\\"
                return self._begin(byte, at + size)
        else:  # CAN and SUB
            out += data[at : at + size]
            self._end()
        return at + size

    def _perhaps_end_passed(self, data: bytes, at: int, out: bytearray) -> int:
        """After an ESC in a string that passes. If it is not the end, a new sequence begins, and we end the string."""
        out += b"\x1b\\"
        return self._perhaps_end(data, at, out)

    def _perhaps_end(self, data: bytes, at: int, _out: bytearray) -> int:
        if data[at] == 0x5C:
            self._end()
            return at + 1
        return self._begin(ESC, at)


def _control(data: bytes, at: int) -> tuple[int, int]:
    """The byte there, or the control that two bytes of UTF-8 make, and how many bytes that is."""
    if data[at] == 0xC2 and at + 1 < len(data) and 0x80 <= data[at + 1] <= 0x9F:
        return data[at + 1], 2
    return data[at], 1
