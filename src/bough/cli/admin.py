"""`bough admin`: the help text of the group."""


def admin() -> None:
    """Manage accounts and show the audit log.

    For the operator of a running platform. These commands read the operator's API key from the home.
    """
