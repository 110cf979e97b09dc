"""Words for readable ids: short, plain, and inoffensive in any combination."""

import secrets

ADJECTIVES = tuple(
    """
    amber aged autumn bold brave bright brisk broad calm clean clear cold cool crimson crisp
    curly damp dark dawn deep delicate dewy divine dry dusty early falling fancy flat floral
    fragrant fresh frosty gentle golden green hidden holy icy jolly late lively long lucky
    mellow misty morning mossy muddy mute nameless noisy odd old orange patient plain
    polished proud purple quiet rapid restless rough round royal shiny shy silent small
    snowy soft solitary spring square steep still summer sweet swift tight tiny twilight
    wandering warm weathered white wild winter wispy withered young
    """.split()
)

NOUNS = tuple(
    """
    art band bar base bird block boat bonus bread breeze brook bush butterfly cake cell
    cherry cloud credit darkness dawn dew disk dream dust feather field fire firefly flower
    fog forest frog frost glade glitter grass hall hat haze heart hill king lab lake leaf
    limit math meadow mode moon morning mountain mouse mud night paper pine poetry pond
    queen rain recipe resonance rice river salad scene sea shadow shape silence sky smoke
    snow sound star sun sunset surf term thunder tooth tree truth union unit violet voice
    water waterfall wave wildflower wind wood
    """.split()
)


def random_pair() -> str:
    return f"{secrets.choice(ADJECTIVES)}-{secrets.choice(NOUNS)}"
