"""A crowd of connections at the pooled host: what each sets, and how many found it so."""

CONNECTIONS, ROUNDS = 8, 25
SHOW_WORK_MEM = "show work_mem"
SHOW_CUSTOM_SETTING = "select current_setting('my.word', true)"


def make_settings(number: int) -> tuple[str, str]:
    """One that Postgres knows and one that it does not."""
    return f"set work_mem = '{1000 + number}kB'", f"set my.word = 'word {number}'"


def count_kept_settings(right: int, memories: list[str], words: list[str]) -> dict[str, int]:
    return {
        "right": right,
        "kept": sum(value == f"{1000 + number}kB" for number, value in enumerate(memories)),
        "words": sum(value == f"word {number}" for number, value in enumerate(words)),
    }
