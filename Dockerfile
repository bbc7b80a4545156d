FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY contracts contracts
COPY fixtures fixtures
COPY emulator emulator
RUN pip wheel --no-deps --no-cache-dir --disable-pip-version-check --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --disable-pip-version-check /wheels/*.whl \
    && useradd --uid 10001 --create-home --home-dir /state emulator

# Inside a container only other interfaces than loopback can be published.
ENV EMULATOR_HOST=0.0.0.0 \
    PYTHONUNBUFFERED=1
USER emulator
WORKDIR /state
# Keep state with `-e EMULATOR_DB=/state/emulator.db`; without it nothing is written.
VOLUME /state
EXPOSE 8080
STOPSIGNAL SIGTERM

# The empty proxy table: a proxy set for the container must not be asked for its own loopback address.
HEALTHCHECK --interval=5s --timeout=3s --retries=3 CMD ["python", "-c", "\
import os, urllib.request as request; \
port = os.environ.get('EMULATOR_PORT', '8080'); \
request.build_opener(request.ProxyHandler({})).open(f'http://127.0.0.1:{port}/_emulator/health', timeout=2)"]

ENTRYPOINT ["svc-emulator"]
CMD ["serve"]
