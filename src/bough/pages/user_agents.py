"""Names of browsers, derived from their user agents."""

# The order matters: most user agents also contain the names of other browsers.
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
_MAX_LENGTH = 60


def describe_user_agent(user_agent: str) -> str:
    program, system = _find_name(_PROGRAMS, user_agent), _find_name(_SYSTEMS, user_agent)
    if program and system:
        return f"{program} on {system}"
    return program or user_agent[:_MAX_LENGTH] or "Unknown browser"


def _find_name(names: dict[str, str], agent: str) -> str | None:
    lowered = agent.lower()
    return next((name for pattern, name in names.items() if pattern in lowered), None)
