"""Data of another time, or of another branch, becomes a branch's own, in a volume that nobody serves yet.

Whoever could enter the branch before still can, with the same password, if that data knows them. Roles that only the
data has keep the passwords in it, unless it is a protected branch's: those open nothing but that. Subscriptions do not
go on: what was published since is not in the data.
"""

from collections.abc import Mapping
from dataclasses import replace

from bough.domain.catalog_change import DisableSubscriptions, ReplacePasswords
from bough.engine.port import BranchContents, BranchEngine, Origin
from bough.engine.spec import BranchSpec

Verifiers = Mapping[str, str | None]  # role → verifier; None: it has no password


async def disable_subscriptions(engine: BranchEngine, spec: BranchSpec, origin: Origin) -> None:
    """Nothing in the volume follows a publisher any more. May be repeated."""
    if origin.has_subscriptions:
        await engine.apply_change(spec, DisableSubscriptions())


async def adopt_passwords(
    engine: BranchEngine, spec: BranchSpec, contents: BranchContents, verifiers: Verifiers, *, is_protected: bool
) -> BranchContents:
    """What is in the volume then. May be repeated."""
    if is_protected:
        verifiers = {role.name: verifiers.get(role.name) for role in contents.roles}
        if contents.unlisted_roles:  # they have passwords too, and may be listed later
            await engine.apply_change(spec, ReplacePasswords(verifiers=verifiers))
            return replace_verifiers(contents, verifiers)
    return await keep_passwords(engine, spec, contents, verifiers)


async def keep_passwords(
    engine: BranchEngine, spec: BranchSpec, contents: BranchContents, verifiers: Verifiers
) -> BranchContents:
    """Roles that are in both have these passwords."""
    others = {
        role.name: verifiers[role.name]
        for role in contents.roles
        if role.name in verifiers and verifiers[role.name] != role.verifier
    }
    if others:
        await engine.apply_change(spec, ReplacePasswords(verifiers=others, keeps_others=True))
    return replace_verifiers(contents, others)


def verifiers_of(contents: BranchContents) -> Verifiers:
    return {role.name: role.verifier for role in contents.roles}


def replace_verifiers(contents: BranchContents, verifiers: Verifiers) -> BranchContents:
    roles = (replace(role, verifier=verifiers.get(role.name, role.verifier)) for role in contents.roles)
    return replace(contents, roles=tuple(roles))
