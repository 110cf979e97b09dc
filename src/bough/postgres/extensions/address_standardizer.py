"""address_standardizer: splits addresses into their parts."""

from bough.postgres.extensions.extension import Extension

ADDRESS_STANDARDIZER = Extension(
    name="address_standardizer",
    summary="splits addresses into their parts",
    package="postgresql-{major}-postgis-3",
    packages_of={18: "postgresql-18-address-standardizer"},
    links={"address_standardizer.control": "address_standardizer-3.control"},
    review="Functions in C that read rules from tables which the caller names, with the rights of the caller.",
)
