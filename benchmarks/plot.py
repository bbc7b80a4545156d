"""How the cost of a delivery grows with the number of them, as a small SVG without a library.

The picture has a ground of its own, so that it is readable on any page; its colours follow the reader's scheme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from benchmarks.figures import Figure

_WIDTH, _HEIGHT = 680, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 24, 44, 48
_TICKS = 6
_TITLE = "Cost of a delivery in µs of CPU, by how many deliveries there were before"

_STYLE = """\
  <style>
    text { font: 12px system-ui, sans-serif; fill: #57606a }
    .title { font-size: 14px; fill: #1f2328 }
    .ground { fill: #ffffff } .grid { stroke: #d8dee4 }
    .line { fill: none; stroke-width: 2 }
    .line0 { stroke: #0969da } .mark0 { fill: #0969da } .line1 { stroke: #bc4c00 } .mark1 { fill: #bc4c00 }
    @media (prefers-color-scheme: dark) {
      text { fill: #9198a1 } .title { fill: #f0f6fc }
      .ground { fill: #0d1117 } .grid { stroke: #30363d }
      .line0 { stroke: #4493f8 } .mark0 { fill: #4493f8 } .line1 { stroke: #f0883e } .mark1 { fill: #f0883e }
    }
  </style>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A figure with its steps, and what it is called if there is more than one."""

    figure: Figure
    name: str = ""


def svg(lines: Sequence[Line]) -> str:
    """One or two lines over the same number of steps. Both axes begin at 0."""
    figure = lines[0].figure
    most_done = figure.count * (len(figure.steps) - 1)
    highest = max(step for line in lines for step in line.figure.steps)
    across, up = tick(most_done), tick(highest)
    ceiling = up * ceil(highest / up)

    def x(done: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * done / most_done

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / ceiling

    def parts() -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" role="img">'
        )
        yield f"  <title>{_TITLE}</title>"
        yield _STYLE
        yield f'  <rect class="ground" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        yield f'  <text class="title" x="{_LEFT}" y="24">{_TITLE}</text>'
        for value in _multiples(up, ceiling):
            yield f'  <path class="grid" d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}"/>'
            yield f'  <text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
        for done in _multiples(across, most_done):
            yield f'  <text x="{x(done):.1f}" y="{_HEIGHT - 22}" text-anchor="middle">{done:,.0f}</text>'
        for number, line in enumerate(lines):
            points = [(x(at * figure.count), y(value)) for at, value in enumerate(line.figure.steps)]
            path = "L".join(f"{left:.1f} {top:.1f}" for left, top in points)
            yield f'  <path class="line line{number}" d="M{path}"/>'
            yield from (f'  <circle class="mark{number}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points)
            left, top = points[-1]
            if line.name:
                yield f'  <text x="{left:.1f}" y="{top - 10:.1f}" text-anchor="end">{escape(line.name)}</text>'
        yield "</svg>\n"

    return "\n".join(parts())


def tick(most: float) -> float:
    """A round distance (1, 2 or 5 times a power of ten) of which at most six reach what is most."""
    power = 10.0 ** floor(log10(most / _TICKS))
    return next(power * times for times in (1, 2, 5, 10) if power * times * _TICKS >= most)


def _multiples(distance: float, most: float) -> Iterator[float]:
    return (distance * times for times in range(round(most // distance) + 1))
