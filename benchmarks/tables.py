"""The tables that are printed, line by line as the figures come, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.figures import Figure, ratio_text
from benchmarks.measuring import Comparison

Lines = Iterator[str]


def of_figures(found: Iterable[Figure], *, for_readme: bool) -> Lines:
    """One checkout: the figures with their targets; for the README those that have one, without it."""
    if for_readme:
        yield "| what | figure |"
        yield "|---|---|"
        yield from (f"| {each.what} | {each.text} |" for each in found if each.target)
        return
    yield f"| {'what':52} | {'figure':72} | {'target':32} | |"
    yield "|---|---|---|---|"
    for figure in found:
        verdict = "ok" if figure.is_met else "MISSED"
        yield f"| {figure.what:52} | {figure.text:72} | {figure.target_text:32} | {verdict} |"


def of_comparisons(found: Iterable[Comparison], *, other: str, for_readme: bool) -> Lines:
    """This checkout and another one: both ratios to the floor, and that of the two checkouts."""
    if for_readme:
        yield f"| what | figure | of that of {other} |"
        yield "|---|---|---|"
        yield from (f"| {each.what} | {each.ours.text} | {each.ratio:.2f} |" for each in found if each.ours.target)
        return
    yield (
        f"| {'what':52} | {'this':>18} | {other:>18} | {'this/floor':>10} | {'other/floor':>11} "
        "| this/other | of the pairs |"
    )
    yield "|---|---|---|---|---|---|---|"
    for each in found:
        ours, theirs, ratios = each.ours, each.theirs, each.ratios
        yield (
            f"| {each.what:52} | {ours.unit.text(ours.value):>18} | {theirs.unit.text(theirs.value):>18} "
            f"| {_to_floor(ours):>10} | {_to_floor(theirs):>11} "
            f"| {each.ratio:10.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |"
        )


def _to_floor(figure: Figure) -> str:
    return "" if figure.to_floor is None else ratio_text(figure.to_floor)
