"""postgis_tiger_geocoder: finds addresses in data of the United States Census Bureau."""

from bough.postgres.extensions.extension import Extension

POSTGIS_TIGER_GEOCODER = Extension(
    name="postgis_tiger_geocoder",
    summary="finds addresses in TIGER data",
    package="postgresql-{major}-postgis-3",
    requires=("postgis", "fuzzystrmatch"),
    needs_superuser=False,
    schema="tiger",
    links={"postgis_tiger_geocoder.control": "postgis_tiger_geocoder-3.control"},
    # What the loader fills; the other tables come with rows.
    tenant_tables=(
        "addr",
        "addrfeat",
        "bg",
        "county",
        "county_lookup",
        "countysub_lookup",
        "cousub",
        "edges",
        "faces",
        "featnames",
        "place",
        "place_lookup",
        "state",
        "tabblock",
        "tabblock20",
        "tract",
        "zcta5",
        "zip_lookup",
        "zip_lookup_all",
        "zip_lookup_base",
        "zip_state",
        "zip_state_loc",
    ),
    review=(
        "Its scripts run as the role that creates it, which owns all its objects. The loader only prints a "
        "shell script."
    ),
)
