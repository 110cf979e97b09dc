"""Changes to the files of an extension."""


def mark_trusted(text: str) -> str:
    """Return an extension's control file with `trusted = true`, whatever its current value."""
    kept = [line for line in text.splitlines() if not line.replace(" ", "").startswith("trusted=")]
    return "\n".join([*kept, "trusted = true"]) + "\n"


def extend_script(text: str, addition: str) -> str:
    """Return an extension's script with the additional statements, which are added only once."""
    return text if text.endswith(addition) else f"{text}\n{addition}"
