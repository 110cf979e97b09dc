"""The limits that projects have reached replace the transfer periods, which the consumption history makes needless."""

import sqlalchemy as sa
from alembic import op

from bough.store.types import Json, UtcDateTime

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project_limits",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("reached", sa.Text(), nullable=True),
        sa.Column("warnings", Json, nullable=False),
        sa.Column("period_start", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_project_limits_project_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_project_limits"),
    )
    op.execute(
        "insert into project_limits (project_id, reached, warnings, period_start) "
        "select project_id, 'plan_transfer', '{}', began_at from transfer_periods where is_over"
    )
    where = sa.text("reached is not null")
    op.create_index(
        "ix_project_limits_reached", "project_limits", ["project_id"], sqlite_where=where, postgresql_where=where
    )
    op.drop_table("transfer_periods")


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
