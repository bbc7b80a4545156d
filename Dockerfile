# Two builds of one commit install the same: the base has a version (its digest may be given as well,
# `--build-arg PYTHON=3.13.7-slim-bookworm@sha256:...`), constraints.txt gives one to every package,
# and pip gets to see no other.
ARG PYTHON=3.13.7-slim-bookworm

FROM python:${PYTHON} AS build
# No file that is made here tells when it was made.
ARG SOURCE_DATE_EPOCH=0
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY constraints.txt ./
RUN pip wheel --no-deps --only-binary=:all: --wheel-dir=/wheels --requirement=constraints.txt \
    && pip install --no-index --find-links=/wheels --constraint=constraints.txt hatchling sphinx myst-parser
COPY pyproject.toml hatch_build.py svc_emulator_pytest.py README.md LICENSE CONTRIBUTING.md SECURITY.md ./
COPY docs docs
COPY contracts contracts
COPY fixtures fixtures
COPY emulator emulator
# What the documentation is made with is installed here already, and some of it is needed there too (--ignore-installed).
# Compiled without the sources' dates, which differ from build to build and would have to be checked at every start.
RUN pip install --no-index --find-links=/wheels --no-build-isolation --no-compile --no-warn-script-location \
        --ignore-installed --prefix=/install . \
    && find /install -type d -name tests -prune -exec rm -rf {} + \
    && python -m compileall -q -j 0 --invalidation-mode=unchecked-hash -s /install -p /usr/local /install \
    && mkdir -p /volume/state

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="svc-emulator" \
      org.opencontainers.image.description="A local emulator of an HTTP message-scheduling service" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /install /usr/local
# With its own folder inside, because it is what is copied that gets an owner, not where it is copied to.
COPY --from=build --chown=10001:10001 /volume /

# Inside a container only other interfaces than loopback can be published.
ENV EMULATOR_HOST=0.0.0.0
# A number, because whoever forbids root has to see from outside that it is another.
USER 10001:10001
WORKDIR /state
# Keep state with `-e EMULATOR_DB=/state/emulator.db`; without it nothing is written.
VOLUME /state
EXPOSE 8080
STOPSIGNAL SIGTERM

# It goes by the same variables as the server: port, certificate, control token.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["svc-emulator", "health"]

# The command line of the public service's own image, `qstash dev`, is one of ours too (D-800).
ENTRYPOINT ["svc-emulator"]
CMD ["serve"]
