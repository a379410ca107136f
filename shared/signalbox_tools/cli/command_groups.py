"""Groups of commands whose help lists each command with its whole first sentence."""

import click


class Group(click.Group):
    """A group of commands. click itself cuts off a summary that is longer than a line."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help text."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(SUMMARY_CHARACTERS_MAX)) for name, command in commands]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


SUMMARY_CHARACTERS_MAX = 1_000
