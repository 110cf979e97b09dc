"""`bough admin`: the commands beside this file, and what all of them are about."""


def admin() -> None:
    """Make accounts, and read who did what.

    For the operator, on a platform that runs: these commands take the operator's key, which is in
    the home.
    """
