"""Instants, durations and addresses as arguments: what is malformed is refused before any call."""

from __future__ import annotations

import math

import click

from emulator.core.errors import Malformed
from emulator.wire.durations import parse_control_duration_ms
from emulator.wire.instants import read_instant_ms

_RATES = {"frozen": 0.0, "realtime": 1.0}


class Duration(click.ParamType[int]):
    """A length of time in milliseconds: `1d2h30m`, or digits for milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_control_duration_ms(_number_or_text(value))
        except Malformed as malformed:
            self.fail(malformed.reason, param, ctx)


class Instant(click.ParamType[int]):
    """A time in epoch milliseconds: ISO 8601, or digits for milliseconds."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return read_instant_ms(_number_or_text(value))
        except Malformed as malformed:
            self.fail(malformed.reason, param, ctx)


class Rate(click.ParamType[float]):
    """How fast a clock goes: a number, `frozen` for 0 or `realtime` for 1."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        if text in _RATES:
            return _RATES[text]
        try:
            rate = float(text)
        except ValueError:
            rate = math.nan
        if not math.isfinite(rate):
            self.fail(f"expected a number, 'frozen' or 'realtime', got {text!r}", param, ctx)
        return rate


class Url(click.ParamType[str]):
    """The address of a server, without a slash at its end."""

    name = "url"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.startswith(("http://", "https://")):
            self.fail(f"expected an address such as http://127.0.0.1:8080, got {text!r}", param, ctx)
        return text.rstrip("/")


def _number_or_text(value: object) -> int | str:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text
