"""The settings, which are read once and frozen.

They come from flags, then `BOUGH_…` variables, then `bough.toml` in the home. No other package reads settings from the
environment.
"""

from bough.config.home import default_cache, is_root
from bough.config.plans import DEFAULT_PLANS, Plan
from bough.config.regions import Region
from bough.config.settings import DEFAULT_API_PORT, Settings
from bough.config.sources import FILE_NAME, VARIABLE_PREFIX, load_settings

__all__ = [
    "DEFAULT_API_PORT",
    "DEFAULT_PLANS",
    "FILE_NAME",
    "VARIABLE_PREFIX",
    "Plan",
    "Region",
    "Settings",
    "default_cache",
    "is_root",
    "load_settings",
]
