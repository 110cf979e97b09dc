"""Which files of a data directory a clone omits."""

import pytest

from bough.postgres.clone_filter import is_emptied, is_excluded


@pytest.mark.parametrize(
    "name",
    """
    postmaster.pid postmaster.opts current_logfiles current_logfiles.tmp postgresql.auto.conf.tmp
    standby.signal recovery.signal backup_label backup_label.old backup_manifest tablespace_map tablespace_map.old
    global/pg_internal.init base/5/pg_internal.init base/5/pg_internal.init.4711
    base/pgsql_tmp base/pgsql_tmp/pgsql_tmp77.0 pg_tblspc/16399/PG_17_202406281/pgsql_tmp
    base/5/t3_16400 base/5/t3_16400_fsm base/5/t12_16400.2 base/5/t12_16400_vm.2
    """.split(),
)
def test_what_a_server_keeps_for_itself_is_left_out(name: str) -> None:
    assert is_excluded(name)


@pytest.mark.parametrize(
    "name",
    """
    PG_VERSION global/pg_control base/5/1259 base/5/1259_fsm base/5/1259.1 base/5/16400_init base/5/PG_VERSION
    base/5/pg_filenode.map postgresql.auto.conf postgresql.conf pg_hba.conf pg_xact/0000 pg_multixact/offsets/0000
    pg_logical/replorigin_checkpoint pg_stat/pgstat.stat t3_16400 base/5/t3 base/5/t_1 base/5/tx_1
    base/5/postmaster.pid base tablespaces
    """.split(),
)
def test_what_is_data_is_kept(name: str) -> None:
    assert not is_excluded(name)
    assert not is_emptied(name)


def test_only_folders_of_the_top_are_left_empty() -> None:
    assert is_emptied("pg_wal")
    assert is_emptied("pg_replslot")
    assert not is_excluded("pg_wal")
    assert not is_emptied("base/pg_wal")
