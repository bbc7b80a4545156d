"""The program, with every answer that it gives written to the file that `EMULATED_ANSWERS` names."""

from __future__ import annotations

import os
from pathlib import Path

from emulator.cli import main
from tests.contracts.answers import watch, write_to

if __name__ == "__main__":
    with write_to(Path(os.environ["EMULATED_ANSWERS"])) as seen, watch(seen):
        main(prog_name="svc-emulator")
