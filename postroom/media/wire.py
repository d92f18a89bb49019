"""How the darkroom and its children talk: frames of `length, JSON, blobs` on a local socket.

No pickle: what comes out of a child may have been written by a hostile picture.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTHS = struct.Struct("<II")
MAX_HEAD = 256 * 1024
MAX_BLOB = 512 * 1024 * 1024


class Torn(Exception):
    """The other side went away, or what it said makes no sense."""


def send(sock: socket.socket, head: dict[str, Any], blobs: dict[str, bytes] | None = None) -> None:
    """One frame: a small JSON object and named blobs."""
    blobs = blobs or {}
    text = json.dumps({**head, "blobs": [[name, len(blob)] for name, blob in blobs.items()]}).encode()
    sock.sendall(_LENGTHS.pack(len(text), len(blobs)) + text)
    for blob in blobs.values():
        sock.sendall(blob)


def receive(sock: socket.socket) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The next frame; raises Torn when there is none."""
    size, count = _LENGTHS.unpack(_exactly(sock, _LENGTHS.size))
    if size > MAX_HEAD or count > 16:
        raise Torn("a frame is too large")
    try:
        head = json.loads(_exactly(sock, size))
        wanted = [(str(name), int(length)) for name, length in head.pop("blobs")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Torn(f"a frame can't be read: {type(error).__name__}") from None
    if len(wanted) != count or not all(0 <= length <= MAX_BLOB for _, length in wanted):
        raise Torn("a frame's parts are too large")
    return head, {name: _exactly(sock, length) for name, length in wanted}


def _exactly(sock: socket.socket, length: int) -> bytes:
    buffer = bytearray(length)
    view, got = memoryview(buffer), 0
    while got < length:
        try:
            more = sock.recv_into(view[got:])
        except ConnectionError as error:
            raise Torn(str(error)) from None
        if not more:
            raise Torn("the other side went away")
        got += more
    return bytes(buffer)
