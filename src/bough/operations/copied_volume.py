"""Adapts a volume with data of another time or of another branch, before any compute serves it.

Roles that the branch already has keep their passwords. Roles that only the copied data has keep the passwords in it,
unless the source is protected. Subscriptions are disabled: changes published since are not in the data.
"""

from collections.abc import Mapping
from dataclasses import replace

from bough.domain.catalog_change import DisableSubscriptions, ReplacePasswords
from bough.engine.port import BranchContents, BranchEngine, Origin
from bough.engine.spec import BranchSpec

Verifiers = Mapping[str, str | None]  # by role; None: the role has no password


async def disable_subscriptions(engine: BranchEngine, spec: BranchSpec, origin: Origin) -> None:
    """Disable all subscriptions in the volume. Repeatable."""
    if origin.has_subscriptions:
        await engine.apply_change(spec, DisableSubscriptions())


async def set_passwords_of_branch(
    engine: BranchEngine, spec: BranchSpec, contents: BranchContents, verifiers: Verifiers, *, is_protected: bool
) -> BranchContents:
    """Set these passwords and return the new contents. The passwords of a protected source are removed. Repeatable."""
    if is_protected:
        verifiers = {role.name: verifiers.get(role.name) for role in contents.roles}
        if contents.unlisted_roles:  # they have passwords too
            await engine.apply_change(spec, ReplacePasswords(verifiers=verifiers))
            return replace_verifiers(contents, verifiers)
    return await set_passwords(engine, spec, contents, verifiers)


async def set_passwords(
    engine: BranchEngine, spec: BranchSpec, contents: BranchContents, verifiers: Verifiers
) -> BranchContents:
    """Set these passwords for the roles that the volume has."""
    changed = {
        role.name: verifiers[role.name]
        for role in contents.roles
        if role.name in verifiers and verifiers[role.name] != role.verifier
    }
    if changed:
        await engine.apply_change(spec, ReplacePasswords(verifiers=changed, keeps_others=True))
    return replace_verifiers(contents, changed)


def verifiers_of(contents: BranchContents) -> Verifiers:
    return {role.name: role.verifier for role in contents.roles}


def replace_verifiers(contents: BranchContents, verifiers: Verifiers) -> BranchContents:
    roles = (replace(role, verifier=verifiers.get(role.name, role.verifier)) for role in contents.roles)
    return replace(contents, roles=tuple(roles))
