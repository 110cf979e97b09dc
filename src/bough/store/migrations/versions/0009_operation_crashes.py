"""Operations count how often control ended while their step ran."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operations", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
