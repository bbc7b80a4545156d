"""Refused calls: each 4xx answer of the messaging and the management API, kept by world and logged, with what was
probably meant, by the call's credentials, its path, and the names it gives (D-332).

The status is looked at as the answer is sent, so any other call pays one comparison.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from starlette.types import Message, Scope, Send

from emulator.api.callers import Known, known_caller, known_token
from emulator.api.endpoint import HAS_QUERY, PASSED_ON
from emulator.api.next_steps import beginning_of, similar_operation
from emulator.core.errors import Refused
from emulator.core.language.text import near
from emulator.core.record import AccountId
from emulator.core.state import StateView
from emulator.core.world_setup import DEFAULT
from emulator.engine.clock import wall_ms
from emulator.wire.dialect import BUILT_IN, Dialect, load, publisher_of_key
from emulator.wire.error_body import error_json, status_of
from emulator.wire.messaging.mistakes import MOST_NAMES, mistake
from emulator.wire.parts import RequestParts, basic_credentials, read_parts
from emulator.wire.redaction import mask_credentials
from emulator.wire.times import iso
from emulator.wire.urls import DOUBLED
from emulator.worlds.calls import RefusedCall, head_of_call
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import accounts_of
from emulator.worlds.world import World

# -- hints ------------------------------------------------------------------------------------

_QUOTES = "\"'<>"
_SIGNING_KEY = "this is a signing key, with which receivers verify; expected the token"
# More worlds are not searched for an id.
_MOST_WORLDS = 1_000


class Hints:
    """Finds hints. `paths` are those of the operations, with parameters in braces."""

    def __init__(self, worlds: Worlds, paths: Sequence[str]) -> None:
        self._worlds = worlds
        self._dialect = worlds.dialect
        self._beginnings = sorted({beginning_of(path) for path in paths})

    def of(self, parts: RequestParts, status: int) -> tuple[Known | None, str | None]:
        """Whose credentials a call has, even where they are misplaced, and what was probably meant by it."""
        known = known_caller(self._worlds, parts)
        texts = []
        if status == 401:
            known, text = self._of_credentials(parts, known)
            texts.append(text)
        elif status == 403 and known is not None and known.is_read_only:
            texts.append("this is the read-only token; the account's token may")
        elif status in (404, 405):
            texts += self._of_path(parts)
            texts += [] if known is None else self._of_elsewhere(parts, known)
        names = dict.fromkeys(name.lower() for name, _ in (*parts.headers, *parts.query))
        texts += [text for name in islice(names, MOST_NAMES) if (text := mistake(name, self._dialect)) is not None]
        return known, "; ".join(filter(None, texts)) or None

    # -- credentials ------------------------------------------------------------------------

    def _of_credentials(self, parts: RequestParts, known: Known | None) -> tuple[Known | None, str | None]:
        if known is not None:
            # Valid credentials, but for the other API.
            if basic_credentials(parts) is not None:
                return known, "these are the credentials of the management API; the messaging API takes a bearer token"
            return known, "this is a token of the messaging API; the management API takes a user name and password"
        for token, text in self._misplaced(parts):
            found = known_token(self._worlds, token)
            if found is not None:
                return found, text
        given = parts.header("authorization")
        for token, _ in self._misplaced(parts):
            for world in self._worlds.all():
                if any(
                    token in (each.signing_keys.current, each.signing_keys.next) for each in accounts_of(world.state)
                ):
                    return Known(world=world), _SIGNING_KEY
            if publisher_of_key(token) is not None:
                return None, _SIGNING_KEY
        if given is None and not parts.query:
            return None, "no Authorization header was sent; `svc-emulator env` prints the credentials"
        if given is not None and " " not in given.strip():
            return None, "the scheme is missing: expected Authorization: Bearer <token>; no world has this token either"
        return None, "no world has these credentials; `svc-emulator env` prints those of the default one"

    def _misplaced(self, parts: RequestParts) -> Iterator[tuple[str, str]]:
        """Texts that may be a token that stands in a wrong place, and what is wrong with the place."""
        given = (parts.header("authorization") or "").strip()
        scheme, _, rest = given.partition(" ")
        yield given, "the scheme is missing: expected Authorization: Bearer <token>"
        yield rest.strip(), f"the scheme is {scheme[:20]}: expected Authorization: Bearer <token>"
        yield rest.strip().strip(_QUOTES), "the token stands between quotes or brackets: expected it alone"
        yield given.rpartition(" ")[2].strip(_QUOTES), "expected Authorization: Bearer <token>"
        login = basic_credentials(parts)
        if login is not None:
            for text in (login.username, login.password):
                yield text, "the token was sent as a user name or password: expected Authorization: Bearer <token>"
        own = self._dialect.token_parameter
        for name, value in parts.query[:MOST_NAMES]:
            for other in BUILT_IN:
                if name.lower() == load(other).token_parameter.lower():
                    yield value, f"{name} is of the dialect {other}: here the parameter is called {own}"
            if near(name.lower(), (own, "token")):
                yield value, f"expected the token in the parameter {own}"

    # -- paths ------------------------------------------------------------------------------

    def _of_path(self, parts: RequestParts) -> Iterator[str]:
        if parts.path.lower().startswith("/v2/publish/v2/"):
            yield DOUBLED
        if beginning_of(parts.path) in self._beginnings or parts.path.lower().startswith("/llm/"):
            return
        if (similar := similar_operation(parts.path, self._beginnings)) is not None:
            yield f"did you mean {similar}?"

    def _of_elsewhere(self, parts: RequestParts, known: Known) -> Iterator[str]:
        """Where else there is what the path names and this account does not have."""
        name = parts.path.rstrip("/").rpartition("/")[2]
        kind = parts.path.strip("/").split("/")[1:2]
        for world in self._worlds.all()[:_MOST_WORLDS]:
            for account in _accounts_with(world.state, kind[0].lower() if kind else "", name):
                if world is not known.world:
                    yield f"the world {world.id} has one of this name: is the token of another world meant?"
                    return
                if account != known.account_id and known.account_id is not None:
                    yield f"the account {account} has one of this name: is its token meant?"
                    return


def _accounts_with(state: StateView, kind: str, name: str) -> Iterator[str]:
    """The accounts that have something of this kind, a segment of a path, under this name."""
    if kind == "messages":
        progress = state.messages.get(name)  # type: ignore[call-overload]  # any text may be an id
        if progress is not None:
            yield progress.message.account_id
        return
    for account_id, owner in state.accounts.items():
        of_kind: dict[str, Collection[str]] = {
            "schedules": owner.schedules,
            "queues": owner.queues,
            "topics": owner.groups,
            "publish": owner.groups,
            "dlq": owner.dead_letters,
            "flowcontrol": owner.flow_keys,
        }
        if name in of_kind.get(kind, ()):
            yield account_id


# -- the log ----------------------------------------------------------------------------------

logger = logging.getLogger(__name__)
# Every call, for `--log-level debug`.
calls = logging.getLogger("emulator.calls")

_CONTROL = "/_emulator"
# What browsers ask for by themselves.
_NO_CALLS = ("/favicon.ico",)


class RefusedCallLog:
    """What keeps the refused calls of all worlds. `paths` are those of the operations that it watches."""

    def __init__(self, worlds: Worlds, paths: Sequence[str]) -> None:
        self._worlds = worlds
        self._hints = Hints(worlds, paths)

    def keep(self, scope: Scope, status: int, body: bytes) -> None:
        """Keep a call that is answered with 4xx, unless it is of another API or no refusal of ours."""
        path = scope["path"].lower()
        if not (path == _CONTROL or path.startswith(f"{_CONTROL}/") or path in _NO_CALLS or PASSED_ON in scope):
            self._keep(scope, status, body)

    def _keep(self, scope: Scope, status: int, body: bytes) -> None:
        said = json.loads(body)
        try:
            known, hint = self._hints.of(_parts(scope), status)
        except Refused:
            # A head that cannot be read.
            known, hint = None, None
        world = self._worlds.get(DEFAULT) if known is None else known.world
        client = scope.get("client")
        _keep(
            world,
            method=scope["method"],
            path=_shown_path(scope),
            caller=None if client is None else client[0],
            account_id=None if known is None else known.account_id,
            status=status,
            error=said["error"],
            field=said.get("field"),
            hint=hint,
        )


def keep_refused_item(
    world: World, parts: RequestParts, account_id: AccountId, number: int, refused: Refused, dialect: Dialect
) -> None:
    """Keep an item of a batch that is refused, the first is number 1; the call itself is answered with 200 (D-590)."""
    said = error_json(refused, dialect)
    _keep(
        world,
        method=parts.method,
        path=head_of_call(parts.path, parts.raw_query),
        caller=parts.client_ip,
        account_id=account_id,
        status=status_of(refused),
        error=f"item {number}: {said['error']}",
        field=said.get("field"),
        hint=None,
    )


# What a line of the log has beside its text.
_LOGGED = ("at_ms", "method", "path", "caller", "status", "error", "field", "hint")


def _keep(world: World, **what: Any) -> None:
    """Keep and log a call, of which all is given but when it was."""
    seq = world.refused_calls.last_seq + 1
    # A refusal quotes what it refuses, which may be a URL with a password, or a token in the wrong place (D-777).
    what["error"] = mask_credentials(what["error"])
    call = RefusedCall(seq=seq, at_ms=world.clock.now_ms, wall_ms=wall_ms(), **what)
    world.refused_calls.add(call)
    world.watches.wake()
    logger.warning(
        "%s refused: %s %s -> %d %s%s",
        iso(call.at_ms),
        call.method,
        call.path,
        call.status,
        call.error,
        "" if call.hint is None or call.hint in call.error else f" ({call.hint})",
        extra={**{name: getattr(call, name) for name in _LOGGED}, "world": world.id},
    )


def timed(scope: Scope, send: Send) -> Send:
    """A `send` that logs the call when its answer has ended, with the time since now; the same one without debug."""
    if not calls.isEnabledFor(logging.DEBUG):
        return send
    began = time.perf_counter()
    status = 0

    async def log(message: Message) -> None:
        nonlocal status
        await send(message)
        if message["type"] == "http.response.start":
            status = message["status"]
        elif not message.get("more_body", False):
            duration_ms = (time.perf_counter() - began) * 1000
            path = _shown_path(scope)
            calls.debug(
                "%s %s -> %d in %.1f ms",
                scope["method"],
                path,
                status,
                duration_ms,
                extra={"method": scope["method"], "path": path, "status": status, "duration_ms": duration_ms},
            )

    return log


def _shown_path(scope: Scope) -> str:
    return head_of_call(_raw_path(scope).decode("latin-1"), scope["query_string"].decode("latin-1"))


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw


def _parts(scope: Scope) -> RequestParts:
    """The head of a request. Raises Refused for one that cannot be read."""
    return read_parts(
        method=scope["method"],
        raw_path=_raw_path(scope),
        query_string=scope["query_string"],
        raw_headers=scope["headers"],
        body=b"",
        client_ip="",
        has_query=scope.get(HAS_QUERY, False),
    )
