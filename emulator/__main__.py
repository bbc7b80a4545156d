"""`python -m emulator`: the command line without its command."""

from __future__ import annotations

from emulator.cli import main

main(prog_name="svc-emulator")
