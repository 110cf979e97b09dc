"""Data of another time, or of another branch, becomes a branch's own, in a volume that nobody serves yet.

Whoever could enter the branch before still can, with the same password, if that data knows them. Roles that only the
data has keep the passwords in it, unless it is a protected branch's: those open nothing but that. Subscriptions do not
go on: what was published since is not in the data.
"""

from collections.abc import Mapping
from dataclasses import replace

from bough.domain.change import Rekey, Unsubscribe
from bough.engine.port import Contents, Engine, Origin
from bough.engine.spec import BranchSpec

Passwords = Mapping[str, str | None]  # role → verifier; None: it has no password


async def part(engine: Engine, spec: BranchSpec, origin: Origin) -> None:
    """Nothing in the volume follows a publisher any more. May be repeated."""
    if origin.subscribes:
        await engine.change(spec, Unsubscribe())


async def adopt(
    engine: Engine, spec: BranchSpec, inside: Contents, passwords: Passwords, *, is_protected: bool
) -> Contents:
    """What is in the volume then. May be repeated."""
    if is_protected:
        passwords = {role.name: passwords.get(role.name) for role in inside.roles}
        if inside.unlisted_roles:  # they have passwords too, and may be listed later
            await engine.change(spec, Rekey(verifiers=passwords))
            return with_passwords(inside, passwords)
    return await keep_passwords(engine, spec, inside, passwords)


async def keep_passwords(engine: Engine, spec: BranchSpec, inside: Contents, passwords: Passwords) -> Contents:
    """Roles that are in both have these passwords."""
    others = {
        role.name: passwords[role.name]
        for role in inside.roles
        if role.name in passwords and passwords[role.name] != role.verifier
    }
    if others:
        await engine.change(spec, Rekey(verifiers=others, others_keep=True))
    return with_passwords(inside, others)


def passwords_in(contents: Contents) -> Passwords:
    return {role.name: role.verifier for role in contents.roles}


def with_passwords(inside: Contents, passwords: Passwords) -> Contents:
    roles = (replace(role, verifier=passwords.get(role.name, role.verifier)) for role in inside.roles)
    return replace(inside, roles=tuple(roles))
