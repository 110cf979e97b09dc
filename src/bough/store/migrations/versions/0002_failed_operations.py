"""Failed operations are found without reading all that ever ended."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    failed = sa.text("status = 'failed'")
    op.create_index("ix_operations_failed", "operations", ["endpoint_id"], sqlite_where=failed, postgresql_where=failed)


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
