"""`bough postgres`: the help text of the group."""


def postgres() -> None:
    """Show and update the Postgres builds that projects run on.

    An update brings new minor versions, and moves projects of the first versions of Bough to
    Debian's build. Computes use a new build from their next start.
    """
