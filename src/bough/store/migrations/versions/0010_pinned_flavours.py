"""Projects are pinned to a flavour and a major version of Postgres, no longer to one build."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("update projects set install = 'npm-' || pg_version where install like 'embedded-%'")


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
