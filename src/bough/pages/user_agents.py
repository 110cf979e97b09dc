"""A browser's name for people, out of what it says about itself."""

# In this order: most browsers name others, too, that they want to be taken for.
_PROGRAMS = {
    "edg": "Edge",
    "opr/": "Opera",
    "samsungbrowser": "Samsung Internet",
    "firefox": "Firefox",
    "fxios": "Firefox",
    "chrome": "Chrome",
    "crios": "Chrome",
    "chromium": "Chromium",
    "safari": "Safari",
}
_SYSTEMS = {
    "iphone": "iPhone",
    "ipad": "iPad",
    "android": "Android",
    "windows": "Windows",
    "mac os": "macOS",
    "cros": "ChromeOS",
    "linux": "Linux",
}
_LONGEST = 60


def describe_user_agent(user_agent: str) -> str:
    program, system = _named(_PROGRAMS, user_agent), _named(_SYSTEMS, user_agent)
    if program and system:
        return f"{program} on {system}"
    return program or user_agent[:_LONGEST] or "Unknown browser"


def _named(names: dict[str, str], agent: str) -> str | None:
    said = agent.lower()
    return next((name for mark, name in names.items() if mark in said), None)
