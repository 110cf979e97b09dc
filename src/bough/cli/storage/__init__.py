"""`bough storage`: the help text of the group."""


def storage() -> None:
    """Create a storage image; show the disk usage of volumes.

    On a file system whose files cannot share blocks, such as ext4, every branch is a full copy. A
    storage image is a file that contains XFS or btrfs and is mounted in the home. Branches in it
    share unchanged data.
    """
