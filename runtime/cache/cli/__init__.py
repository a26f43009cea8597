"""The commands `pilotlight cache …`: bundles of compiled code made, proven, kept and moved.

Options and help stand in `makers` and `keepers`; what a command does is in a module of its own and imported when it
runs. Exit codes: 0 done, 1 it could not be done (stderr says what to do), 2 the command line is wrong, 130 interrupted.
"""

import typer

from runtime.cache.cli import keepers, makers
from runtime.cache.cli.options import epilog

app = typer.Typer(
    name="cache",
    help="Make, prove, keep and move bundles of compiled code.",
    epilog=epilog("pilotlight cache ls", "pilotlight cache build /models/chat --store s3://caches/prod"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(makers.app)
app.add_typer(keepers.app)
