"""Who created an organization: the room of a plan is one for all organizations that a person created."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# Whoever created an organization was its first admin. Of one whose creator has left, the admin who joined first counts.
_FIRST_ADMIN = """
update organizations set created_by = coalesce(personal_for, (
    select user_id from members where org_id = organizations.id and role = 'admin' order by joined_at, user_id limit 1
))
"""


def upgrade() -> None:
    op.add_column("organizations", sa.Column("created_by", sa.Text(), nullable=True))
    op.execute(_FIRST_ADMIN)
    op.create_index("ix_organizations_created_by", "organizations", ["created_by"])


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
