"""PostGIS: geometries, coordinate systems and spatial indexes."""

from bough.postgres.extensions.extension import Extension

POSTGIS = Extension(
    name="postgis",
    summary="geometries and spatial indexes (PostGIS)",
    package="postgresql-{major}-postgis-3",
    environment={"PROJ_DATA": "usr/share/proj"},
    links={"postgis.control": "postgis-3.control"},
    script_additions={"postgis--*.sql": "grant insert, update, delete on @extschema@.spatial_ref_sys to @extowner@;\n"},
    review=(
        "Functions run with the rights of the caller. ST_EstimatedExtent is SECURITY DEFINER, in C, and reads "
        "only statistics. Scripts execute queries, which the check of the schema protects. Raster is left out: "
        "it needs GDAL (90 packages), which opens files and addresses."
    ),
)
