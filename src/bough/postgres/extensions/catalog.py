"""All extensions that do not come with Postgres itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bough.postgres.extensions.address_standardizer import ADDRESS_STANDARDIZER
from bough.postgres.extensions.address_standardizer_data_us import ADDRESS_STANDARDIZER_DATA_US
from bough.postgres.extensions.age import AGE
from bough.postgres.extensions.debversion import DEBVERSION
from bough.postgres.extensions.extension import Extension
from bough.postgres.extensions.extra_window_functions import EXTRA_WINDOW_FUNCTIONS
from bough.postgres.extensions.first_last_agg import FIRST_LAST_AGG
from bough.postgres.extensions.h3 import H3
from bough.postgres.extensions.hll import HLL
from bough.postgres.extensions.hypopg import HYPOPG
from bough.postgres.extensions.icu_ext import ICU_EXT
from bough.postgres.extensions.ip4r import IP4R
from bough.postgres.extensions.jsquery import JSQUERY
from bough.postgres.extensions.numeral import NUMERAL
from bough.postgres.extensions.pg_cron import PG_CRON
from bough.postgres.extensions.pg_hint_plan import PG_HINT_PLAN
from bough.postgres.extensions.pg_partman import PG_PARTMAN
from bough.postgres.extensions.pg_permissions import PG_PERMISSIONS
from bough.postgres.extensions.pg_qualstats import PG_QUALSTATS
from bough.postgres.extensions.pg_rational import PG_RATIONAL
from bough.postgres.extensions.pg_similarity import PG_SIMILARITY
from bough.postgres.extensions.pg_sphere import PG_SPHERE
from bough.postgres.extensions.pg_stat_kcache import PG_STAT_KCACHE
from bough.postgres.extensions.pg_uuidv7 import PG_UUIDV7
from bough.postgres.extensions.pg_wait_sampling import PG_WAIT_SAMPLING
from bough.postgres.extensions.pgaudit import PGAUDIT
from bough.postgres.extensions.pgfaceting import PGFACETING
from bough.postgres.extensions.pgrouting import PGROUTING
from bough.postgres.extensions.pgtap import PGTAP
from bough.postgres.extensions.plpgsql_check import PLPGSQL_CHECK
from bough.postgres.extensions.postgis import POSTGIS
from bough.postgres.extensions.postgis_tiger_geocoder import POSTGIS_TIGER_GEOCODER
from bough.postgres.extensions.prefix import PREFIX
from bough.postgres.extensions.refused import REFUSED
from bough.postgres.extensions.roaringbitmap import ROARINGBITMAP
from bough.postgres.extensions.rum import RUM
from bough.postgres.extensions.semver import SEMVER
from bough.postgres.extensions.tdigest import TDIGEST
from bough.postgres.extensions.timescaledb import TIMESCALEDB
from bough.postgres.extensions.vector import VECTOR
from bough.postgres.extensions.wal2json import WAL2JSON

EXTENSIONS: tuple[Extension, ...] = (
    ADDRESS_STANDARDIZER,
    ADDRESS_STANDARDIZER_DATA_US,
    AGE,
    DEBVERSION,
    EXTRA_WINDOW_FUNCTIONS,
    FIRST_LAST_AGG,
    H3,
    HLL,
    HYPOPG,
    ICU_EXT,
    IP4R,
    JSQUERY,
    NUMERAL,
    PGAUDIT,
    PGFACETING,
    PGROUTING,
    PGTAP,
    PG_CRON,
    PG_HINT_PLAN,
    PG_PARTMAN,
    PG_PERMISSIONS,
    PG_QUALSTATS,
    PG_RATIONAL,
    PG_SIMILARITY,
    PG_SPHERE,
    PG_STAT_KCACHE,
    PG_UUIDV7,
    PG_WAIT_SAMPLING,
    PLPGSQL_CHECK,
    POSTGIS,
    POSTGIS_TIGER_GEOCODER,
    PREFIX,
    ROARINGBITMAP,
    RUM,
    SEMVER,
    TDIGEST,
    TIMESCALEDB,
    VECTOR,
    WAL2JSON,
    *REFUSED,
)


def find(name: str) -> Extension | None:
    return next((each for each in EXTENSIONS if each.name == name), None)


def list_default_packages(major: int) -> Iterator[str]:
    """Yield the packages of the extensions in the default build."""
    for each in EXTENSIONS:
        if each.is_in_default_build and major in each.majors:
            yield each.package_for(major)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadableLibrary:
    library: str
    summary: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of Postgres, while it is preloaded
    extension: Extension | None = None  # None: it comes with Postgres
    is_default: bool = False  # preloaded unless the settings of the project or the endpoint say otherwise

    @property
    def extension_name(self) -> str:
        """The extension with its version, if it has one."""
        return self.library if self.extension is None else self.extension.name

    def is_available(self, major: int) -> bool:
        return self.extension is None or major in self.extension.majors


PRELOADABLE: tuple[PreloadableLibrary, ...] = (
    PreloadableLibrary(library="auto_explain", summary="logs the plans of slow statements"),
    PreloadableLibrary(library="pg_prewarm", summary="loads the cached pages again after a restart"),
    PreloadableLibrary(library="pg_stat_statements", summary="counts statements and their times", is_default=True),
    *(
        PreloadableLibrary(library=each.preload_library, summary=each.summary, settings=each.settings, extension=each)
        for each in EXTENSIONS
        if each.preload_library is not None and each.is_allowed
    ),
)
