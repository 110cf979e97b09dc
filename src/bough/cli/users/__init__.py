"""`bough admin user`: the help text of the group."""


def user() -> None:
    """Create accounts and reset passwords.

    Only the account's owner ever knows its password. You give them a link that works once, and they
    set the password on the page that it opens.
    """
