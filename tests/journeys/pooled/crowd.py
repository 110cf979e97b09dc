"""A crowd of connections at the pooled host: what each sets, and how many found it so."""

CROWD, ROUNDS = 8, 25
MEMORY = "show work_mem"
WORD = "select current_setting('my.word', true)"


def settings_of(number: int) -> tuple[str, str]:
    """One that Postgres knows and one that it does not."""
    return f"set work_mem = '{1000 + number}kB'", f"set my.word = 'word {number}'"


def counted(right: int, memories: list[str], words: list[str]) -> dict[str, int]:
    return {
        "right": right,
        "kept": sum(value == f"{1000 + number}kB" for number, value in enumerate(memories)),
        "words": sum(value == f"word {number}" for number, value in enumerate(words)),
    }
