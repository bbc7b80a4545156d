"""The emulator's image as a container of Testcontainers; needs the extra `testcontainers`.


    with EmulatorContainer("svc-emulator", clock="frozen") as container:
        with container.connect() as emulator:
            emulator.clock.advance("1d")

The image is one you have built or published: `docker build -t svc-emulator .`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import HealthcheckWaitStrategy
except ImportError as error:
    raise ImportError("emulator.testcontainers needs its extra: pip install 'svc-emulator[testcontainers]'") from error

if TYPE_CHECKING:
    from emulator.client.sync.emulator import Emulator

_PORT = 8080


# A subclass, so that `with_env`, `with_network` and the like work.
class EmulatorContainer(DockerContainer):
    """A container of the emulator, usable once it is healthy.

    `settings` are the options of `serve` by their names (`clock="frozen"`, `seed=7`); they become the
    container's variables, as `with_env("EMULATOR_CLOCK", "frozen")` does. A list becomes a text with commas.
    An app of the test's own process is reached at `http://host.docker.internal:PORT`, if it listens on
    all interfaces.
    """

    def __init__(
        self,
        image: str = "svc-emulator",
        *,
        control_token: str | None = None,
        docker_client_kw: dict[str, Any] | None = None,
        **settings: str | float | list[str] | tuple[str, ...],
    ) -> None:
        super().__init__(
            image,
            docker_client_kw=docker_client_kw,
            # Docker Desktop defines the name; other engines need it declared.
            extra_hosts={"host.docker.internal": "host-gateway"},
        )
        self.with_exposed_ports(_PORT)
        self.waiting_for(HealthcheckWaitStrategy())
        self._control_token = control_token
        if control_token is not None:
            self.with_env("EMULATOR_CONTROL_TOKEN", control_token)
        for name, value in settings.items():
            text = ",".join(value) if isinstance(value, list | tuple) else str(value)
            self.with_env(f"EMULATOR_{name.upper()}", text)

    def _configure(self) -> None:
        """Called by the library before it makes the container."""
        # The engine may be on another machine, whose name the control API does not accept by itself.
        self.env.setdefault("EMULATOR_ALLOW_CONTROL_HOST", self.get_docker_client().host())

    @property
    def url(self) -> str:
        """The base URL under which this process reaches the container."""
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(_PORT)}"

    @property
    def token(self) -> str:
        """The messaging token of the default world."""
        with self.connect() as emulator:
            return emulator.token

    @property
    def variables(self) -> dict[str, str]:
        """What to hand to the code under test; `env` is what the container itself was given."""
        with self.connect() as emulator:
            return dict(emulator.env)

    def connect(self) -> Emulator:
        """The container's default world. Enter it to use it."""
        from emulator.client.sync.emulator import Emulator

        return Emulator.connect(self.url, control_token=self._control_token)
