"""`bough extensions`: the help text of the group."""


def extensions() -> None:
    """Show Postgres extensions, and add or remove some.

    The default build has many, among them vector. Others are added from Debian's packages, or from a
    package or folder of your own.
    """
