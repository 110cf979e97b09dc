"""ip4r: IPv4 and IPv6 addresses and ranges with indexes."""

from bough.postgres.extensions.extension import Extension

IP4R = Extension(
    name="ip4r",
    summary="IP addresses and ranges with indexes",
    package="postgresql-{major}-ip4r",
    is_in_default_build=True,
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network. The scripts execute queries on catalogs to set properties of their own functions."
    ),
)
