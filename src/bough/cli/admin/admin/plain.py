"""What people chose as names, safe to show: no letter of theirs moves the cursor or changes a colour."""


def plain(text: str) -> str:
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
