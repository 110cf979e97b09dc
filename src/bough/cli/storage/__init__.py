"""`bough storage`: the commands beside this file, and what all of them are about."""


def storage() -> None:
    """Give volumes an image that can clone; show what they take.

    On a file system where files cannot share blocks, ext4 for one, every branch is a copy. An image
    is a file with XFS or btrfs in it, mounted in the home; there branches share what they have in
    common.
    """
