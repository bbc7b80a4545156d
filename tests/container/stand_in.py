"""A container engine's stand-in: carries out a Dockerfile's instructions, and runs what they make.

There is no kernel isolation and no base image. The paths of the image lie below a folder, into which
they are rewritten wherever an instruction names them; the image's Python is a fresh virtual
environment of a Python of this machine at `/usr/local`, without any package but pip; and the commands
of the system (`install`, `sh`) are this machine's. So it shows that the instructions work on each
other's results: what is copied is there, what is installed is enough and in the right places, the
user can do what he has to, the entry point, its environment, the health check and the stop signal fit
together. It does not show that the base image exists, nor that it has those commands.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dockerfile  # type: ignore[import-not-found]  # a compiled module without types
from docker.utils.build import exclude_paths  # type: ignore[import-untyped]  # ships no types

# How long one instruction may take; a download is among them.
_PATIENCE_S = 240
# Where the base image has Python, and what a shell finds there.
_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
# An absolute path, except where the commands of the system lie.
_PATH = re.compile(r"(?<![\w./:-])/(?!(?:usr/)?s?bin\b|dev\b|proc\b)\w[\w./-]*|(?<=:)/usr/local/s?bin\b")
_TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0}


class Unsupported(Exception):
    """An instruction, or a form of one, that the stand-in does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction as the builder's own parser reads it, variables not yet filled in."""

    name: str
    values: tuple[str, ...]
    flags: Mapping[str, str]
    is_json: bool


def read_instructions(path: Path) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    return [
        Instruction(
            name=command.cmd.upper(),
            values=tuple(command.value),
            flags=dict(flag.removeprefix("--").split("=", 1) for flag in command.flags),
            is_json=command.json,
        )
        for command in dockerfile.parse_file(str(path))
    ]


def context_files(folder: Path) -> list[str]:
    """What a builder is sent of a folder, by its `.dockerignore`."""
    patterns = (folder / ".dockerignore").read_text("utf-8").splitlines()
    wanted = [line.strip() for line in patterns if line.strip() and not line.startswith("#")]
    sent = {path for path in exclude_paths(str(folder), wanted) if (folder / path).is_file()}
    # These two are for the builder itself.
    return sorted(sent - {".dockerignore", "Dockerfile"})


@dataclass(kw_only=True)
class Image:
    """What the last stage is configured to run, as `docker inspect` would show it."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _BASE_PATH})
    workdir: str = "/"
    user: str = "0"
    volumes: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    stop_signal: str = "SIGTERM"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    health_command: tuple[str, ...] = ()
    health_flags: dict[str, str] = field(default_factory=dict)

    def inside(self, text: str) -> str:
        """A text with paths of the image in it, as this machine has to see it; its commands stay its own."""
        return _PATH.sub(lambda found: f"{self.root}{found[0]}", text)

    def variables(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        return {name: self.inside(value) for name, value in {**self.environment, **(given or {})}.items()}

    @property
    def ids(self) -> tuple[int, int]:
        """User and group. A name would need the image's own list of users."""
        user, _, group = self.user.partition(":")
        return int(user), int(group or 0)

    def start(self, command: Sequence[str], given: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A process of a container: in its folder, with its variables alone, as its user if we may choose."""
        user, group = self.ids if can_be_another_user() else (os.getuid(), os.getgid())
        variables = {"HOME": "/", **self.variables(given)}
        program = shutil.which(self.inside(command[0]), path=variables["PATH"])
        if program is None:
            raise Unsupported(f"{command[0]}: not found in the image")
        return subprocess.Popen(
            [program, *command[1:]],
            cwd=self.inside(self.workdir),
            env=variables,
            user=user,
            group=group,
            extra_groups=[] if can_be_another_user() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def health(self, given: Mapping[str, str] | None = None) -> tuple[int, str]:
        """One health check: its exit code, and what it said."""
        with self.start(self.health_command, given) as process:
            output, errors = process.communicate(timeout=seconds(self.health_flags["timeout"]) * 10)
        return process.returncode, output + errors

    @contextmanager
    def run(self, given: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """The container itself; killed at the end if it has not been stopped."""
        with self.start([*self.entrypoint, *self.command], given) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def stop(self, process: subprocess.Popen[str]) -> str:
        """The stop signal, and what `docker stop` waits for before it kills; the log. Fails if it would have killed."""
        process.send_signal(signal.Signals[self.stop_signal])
        _, log = process.communicate(timeout=10)
        return log


def seconds(text: str) -> float:
    """A duration as a HEALTHCHECK has it."""
    number, unit = re.fullmatch(r"([0-9]+)(ms|s|m)", text).groups()  # type: ignore[union-attr]  # fails the test
    return float(number) * _TIMES[unit]


def can_be_another_user() -> bool:
    return os.getuid() == 0


def find_python() -> str:
    """A Python that the image's user can run as well: a build of the developer's own may lie in a closed folder."""
    ours = str(Path(sysconfig.get_config_var("BINDIR")) / f"python{sys.version_info.major}.{sys.version_info.minor}")
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for candidate in (ours, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is None or not Path(candidate).exists():
            continue
        ids = {"user": 10001, "group": 10001, "extra_groups": []} if can_be_another_user() else {}
        try:
            done = subprocess.run([candidate, "-c", check], cwd="/", capture_output=True, check=False, **ids)  # type: ignore[call-overload]  # by name
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    raise Unsupported("no Python here can be run by another user")


class Builder:
    """Carries out a Dockerfile with the files of a context, below a folder that any user may enter."""

    def __init__(self, context: Path, folder: Path) -> None:
        self._context = context
        self._files = context_files(context)
        self._folder = folder
        self._root = folder / "root"
        self._python = find_python()
        self._stages: dict[str, Path] = {}
        self._arguments: dict[str, str] = {}
        self._global_arguments: dict[str, str] = {}
        self._name = ""
        self._image: Image | None = None

    def build(self, instructions: Sequence[Instruction]) -> Image:
        """The image of the last stage."""
        for instruction in instructions:
            match instruction:
                case Instruction(name="ARG"):
                    self._arg(instruction)
                case Instruction(name="FROM"):
                    self._from(instruction)
                case _:
                    self._within(instruction, self._stage)
        return self._stage

    @property
    def _stage(self) -> Image:
        assert self._image is not None, "an instruction before FROM"
        return self._image

    def _arg(self, instruction: Instruction) -> None:
        for value in instruction.values:
            name, _, default = value.partition("=")
            target = self._global_arguments if self._image is None else self._arguments
            target[name] = default or self._global_arguments.get(name, "")

    def _from(self, instruction: Instruction) -> None:
        if self._image is not None:
            # The next stage begins with the base's files alone; those of this one are there to be copied from.
            self._root.rename(self._folder / f"stage-{self._name}")
            self._stages[self._name] = self._folder / f"stage-{self._name}"
        base, *rest = (_filled(value, self._global_arguments) for value in instruction.values)
        if not re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base):
            raise Unsupported(f"FROM {base}: expected a Python of a given version")
        self._name = rest[1] if rest else str(len(self._stages))
        self._arguments = {}
        base_files = self._folder / "base"
        if not base_files.exists():
            self._make_base()
            shutil.copytree(self._root, base_files, symlinks=True)
        else:
            base_files.rename(self._root)
        self._image = Image(root=self._root)

    def _make_base(self) -> None:
        """The base's files, where scripts expect them."""
        self._root.mkdir(mode=0o755)
        subprocess.run([self._python, "-m", "venv", str(self._root / "usr" / "local")], check=True, timeout=_PATIENCE_S)

    def _within(self, instruction: Instruction, image: Image) -> None:
        known = {**self._arguments, **image.environment}
        # RUN is left to its shell.
        values = tuple(_filled(value, known) for value in instruction.values)
        match instruction.name:
            case "ENV":
                image.environment.update(_pairs(values))
            case "LABEL":
                image.labels.update(_pairs(values))
            case "WORKDIR":
                image.workdir = os.path.join(image.workdir, values[0])
                self._path(image.workdir).mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(values, instruction.flags)
            case "RUN":
                self._run(instruction)
            case "USER":
                image.user = values[0]
            case "VOLUME":
                image.volumes += values
            case "EXPOSE":
                image.ports += values
            case "STOPSIGNAL":
                image.stop_signal = values[0]
            case "HEALTHCHECK" if instruction.is_json and values[0] == "CMD":
                image.health_command, image.health_flags = values[1:], dict(instruction.flags)
            case "ENTRYPOINT" if instruction.is_json:
                image.entrypoint = values
            case "CMD" if instruction.is_json:
                image.command = values
            case _:
                raise Unsupported(f"{instruction.name} {' '.join(values)}")

    def _path(self, path: str) -> Path:
        return self._root / os.path.join(self._stage.workdir, path).lstrip("/")

    def _run(self, instruction: Instruction) -> None:
        if instruction.is_json or instruction.flags:
            raise Unsupported("RUN other than with a plain shell command")
        # How this machine reaches a package index is the builder's affair, in the one as in the other.
        ours = ("PIP_", "HTTP_", "HTTPS_", "http_", "https_", "no_proxy", "NO_PROXY", "SSL_", "REQUESTS_", "HOME")
        network = {name: value for name, value in os.environ.items() if name.startswith(ours)}
        script = self._stage.inside(instruction.values[0])
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=self._path(""),
            env={**network, **self._arguments, **self._stage.variables()},
            capture_output=True,
            encoding="utf-8",
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"

    def _copy(self, values: Sequence[str], flags: Mapping[str, str]) -> None:
        *sources, target = values
        if unknown := flags.keys() - {"from", "chown"}:
            raise Unsupported(f"COPY --{min(unknown)}")
        for source in sources:
            if "from" in flags:
                copied = self._copy_folder(self._stages[flags["from"]] / source.lstrip("/"), self._path(target))
            else:
                copied = self._copy_context(source, target)
            if "chown" in flags and can_be_another_user():
                user, _, group = flags["chown"].partition(":")
                for path in copied:
                    os.chown(path, int(user), int(group), follow_symlinks=False)

    def _copy_folder(self, source: Path, target: Path) -> list[Path]:
        if not source.is_dir():
            raise Unsupported(f"COPY of {source}, which is no folder")
        # That stage is over: nothing changes its files any more, so they need not be there twice.
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=os.link)
        return [target / path.relative_to(source) for path in source.rglob("*")]

    def _copy_context(self, source: str, target: str) -> list[Path]:
        copied = []
        for name in self._files:
            if name == source:
                path = self._path(target) / name if target.endswith("/") else self._path(target)
            elif name.startswith(f"{source}/"):
                path = self._path(target) / name.removeprefix(f"{source}/")
            else:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._context / name, path)
            copied.append(path)
        assert copied, f"COPY {source}: not in the context"
        return copied


def _filled(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda found: variables.get(found[1] or found[2], ""), text)


def _pairs(values: Sequence[str]) -> dict[str, str]:
    """Names and values in turn; the parser leaves quotes on."""
    unquoted = [value.strip('"') for value in values]
    return dict(zip(unquoted[::2], unquoted[1::2], strict=True))
