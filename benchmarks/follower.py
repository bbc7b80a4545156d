"""A program: a reader of an emulator's stream that keeps up with it and keeps nothing of it."""

from __future__ import annotations

import socket
import sys


def main(port: int) -> None:
    """Follow the default world of the emulator on a port until this process is ended; say when that has begun."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /_emulator/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        is_told = False
        while connection.recv(1 << 20):
            if not is_told:
                print("following", flush=True)
                is_told = True


if __name__ == "__main__":
    main(int(sys.argv[1]))
