"""One example for each extension that the operator can add."""

from engine.extension_examples import Example

ADDED_PRELOADED = ("pg_stat_statements", "age", "pg_qualstats", "pg_stat_kcache", "pg_wait_sampling", "timescaledb")

ADDED_EXAMPLES = (
    Example(
        extension="postgis",
        setup="""
            create table places (id int primary key, location geometry(point, 4326));
            insert into places select n, st_setsrid(st_makepoint(n / 10.0, 45), 4326) from generate_series(1, 1000) n;
            create index places_gist on places using gist (location);
        """,
        query="""
            select round(st_x(st_transform(location, 3857))) = 111319 and st_srid(st_transform(location, 3857)) = 3857
              from places where id = 10
        """,
    ),
    Example(
        extension="postgis",
        before="set enable_seqscan = off",
        query="select id from places order by location <-> st_setsrid(st_makepoint(7.01, 45), 4326) limit 1",
        expected="places_gist",
        explains=True,
    ),
    Example(
        extension="pgrouting",
        setup="""
            create table roads (id int, source int, target int, cost float8);
            insert into roads values (1, 1, 2, 1), (2, 2, 3, 1), (3, 1, 3, 5);
        """,
        query="select max(agg_cost) from pgr_dijkstra('select * from roads', 1, 3, false)",
        expected=2.0,
    ),
    Example(
        extension="address_standardizer",
        query="select num || ' ' || street from parse_address('1 Devonshire Place, Boston, MA 02109')",
        expected="1 Devonshire Place",
    ),
    Example(
        extension="address_standardizer_data_us",
        query="""
            select house_num || ' ' || name from
                standardize_address('us_lex', 'us_gaz', 'us_rules', '1 Devonshire Place', 'Boston, MA 02109')
        """,
        expected="1 DEVONSHIRE",
    ),
    Example(extension="fuzzystrmatch", query="select levenshtein('kitten', 'sitting')", expected=3),
    Example(
        extension="postgis_tiger_geocoder",
        query="select (tiger.normalize_address('1 Devonshire Place, Boston, MA 02109')).stateabbrev",
        expected="MA",
    ),
    Example(
        extension="age",
        setup="""
            select ag_catalog.create_graph('people');
            select * from ag_catalog.cypher(
                'people', $$ create (:Person {name: 'Ada'})-[:KNOWS]->(:Person {name: 'Bo'}) $$
            ) as (result ag_catalog.agtype);
        """,
        before="set search_path = ag_catalog, public",
        query="""
            select name::text from cypher('people', $$ match (:Person {name: 'Ada'})-[:KNOWS]->(p) return p.name $$)
                as (name agtype)
        """,
        expected="Bo",
    ),
    Example(
        extension="timescaledb",
        setup="""
            create table readings (at timestamptz not null, value int);
            select create_hypertable('readings', 'at');
            insert into readings
                select '2026-01-01'::timestamptz + n * interval '1 day', n from generate_series(1, 30) n;
        """,
        query="""
            select count(distinct time_bucket('7 days', at)) >= 5 and (select count(*) > 2 from show_chunks('readings'))
              from readings
        """,
    ),
    Example(
        extension="h3",
        query="select h3_get_resolution(h3_lat_lng_to_cell(point(-122.0, 37.3), 5))",
        expected=5,
    ),
    Example(extension="debversion", query="select '1:1.0~rc1'::debversion < '1:1.0'::debversion"),
    Example(
        extension="extra_window_functions",
        query="select flip_flop(n = 2, n = 3) over (order by n) from generate_series(1, 3) n order by n desc limit 1",
    ),
    Example(
        extension="first_last_agg",
        query="select first(n order by n) || ' ' || last(n order by n) from generate_series(1, 9) n",
        expected="1 9",
    ),
    Example(
        extension="icu_ext",
        query="select icu_compare('côté', 'cote', 'und@colStrength=primary')",
        expected=0,
    ),
    Example(
        extension="jsquery",
        setup="""
            create table documents (content jsonb);
            insert into documents select jsonb_build_object('n', n) from generate_series(1, 500) n;
            create index documents_gin on documents using gin (content jsonb_path_value_ops);
        """,
        query="select content::text from documents where content @@ 'n = 42'::jsquery",
        expected='{"n": 42}',
    ),
    Example(
        extension="numeral", query="select ('twenty-one'::numeral + 'two'::numeral)::text", expected="twenty-three"
    ),
    Example(
        extension="pgfaceting",
        setup="""
            create table films (id int primary key, genre text);
            insert into films
                select n, case when n % 2 = 0 then 'drama' else 'comedy' end from generate_series(1, 10) n;
            select faceting.add_faceting_to_table('films', key => 'id', facets => array[faceting.plain_facet('genre')]);
        """,
        query="select cardinality::int from faceting.top_values('films'::regclass) where facet_value = 'drama'",
        expected=5,
    ),
    Example(extension="pg_permissions", query="select count(*) > 0 from all_permissions where object_name = 'places'"),
    Example(
        extension="pg_qualstats",
        before="set pg_qualstats.sample_rate = 1",
        query="select count(*) >= 0 from pg_qualstats()",
    ),
    Example(extension="pg_rational", query="select 1::rational / 3 + '1/6'::rational = '1/2'::rational"),
    Example(extension="pg_similarity", query="select lev('kitten', 'sitting') between 0 and 1"),
    Example(
        extension="pg_sphere",
        query="select degrees(spoint '(10d,0d)' <-> spoint '(20d,0d)')::numeric(5,2)::text",
        expected="10.00",
    ),
    Example(extension="pg_stat_kcache", query="select count(*) > 0 from pg_stat_kcache()"),
    Example(extension="pg_wait_sampling", query="select count(*) > 0 from pg_wait_sampling_current"),
    Example(
        extension="prefix",
        setup="""
            create table numbers_by_prefix (prefix prefix_range primary key, name text);
            insert into numbers_by_prefix values ('44', 'UK'), ('4420', 'London');
            create index numbers_by_prefix_gist on numbers_by_prefix using gist (prefix);
        """,
        query="select name from numbers_by_prefix where prefix @> '442079460000' order by length(prefix) desc limit 1",
        expected="London",
    ),
    Example(
        extension="roaringbitmap",
        query="select rb_cardinality(rb_and(rb_build(array[1, 2, 3]), rb_build(array[2, 3, 4])))::int",
        expected=2,
    ),
    Example(extension="semver", query="select '1.10.0'::semver > '1.9.3'::semver"),
    Example(
        extension="tdigest",
        query="select abs(tdigest_percentile(n::float8, 100, 0.5) - 500) < 20 from generate_series(1, 1000) n",
    ),
)
