"""Settings that each of several pooled connections sets, and the number of connections that kept them."""

CONNECTIONS, ROUNDS = 8, 25
SHOW_WORK_MEM = "show work_mem"
SHOW_CUSTOM_SETTING = "select current_setting('my.word', true)"


def make_settings(number: int) -> tuple[str, str]:
    """Returns statements that set a Postgres setting and a custom setting."""
    return f"set work_mem = '{1000 + number}kB'", f"set my.word = 'word {number}'"


def count_kept_settings(correct: int, memories: list[str], words: list[str]) -> dict[str, int]:
    return {
        "right": correct,
        "kept": sum(value == f"{1000 + number}kB" for number, value in enumerate(memories)),
        "words": sum(value == f"word {number}" for number, value in enumerate(words)),
    }
