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
    review=(
        "Its scripts run as the role that creates it, which owns all its objects. The loader only prints a "
        "shell script."
    ),
)
