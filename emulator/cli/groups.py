"""Groups of commands about one kind of thing: `schedules` alone is `schedules list`."""

from __future__ import annotations

import click


class ListingGroup(click.Group):
    """A group whose command `list` is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Completion wants the names of all commands.
        if not ctx.resilient_parsing and (
            not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        ):
            args = ["list", *args]
        return super().parse_args(ctx, args)
