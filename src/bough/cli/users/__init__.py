"""`bough admin user`: the commands beside this file, and what all of them are about."""


def user() -> None:
    """Make accounts, and give people a way back in.

    Nobody but the person ever knows their password: they set it on the page behind a link, which
    you hand over and which works once.
    """
