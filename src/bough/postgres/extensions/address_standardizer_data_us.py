"""address_standardizer_data_us: rules for addresses in the United States."""

from bough.postgres.extensions.extension import Extension

ADDRESS_STANDARDIZER_DATA_US = Extension(
    name="address_standardizer_data_us",
    summary="rules for addresses in the United States",
    package="postgresql-{major}-postgis-3",
    packages_of={18: "postgresql-18-address-standardizer"},
    links={"address_standardizer_data_us.control": "address_standardizer_data_us-3.control"},
    review="Three tables with data, which everyone may read.",
)
