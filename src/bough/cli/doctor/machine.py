"""Checks of the machine and of who we are on it."""

import os
import pwd
import sys
from pathlib import Path

from bough.cli import output, postgres_install
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings, is_root
from bough.engine.local.isolation import cgroups, launcher, system_users
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.supervisor import ports, state

MIN_PYTHON = (3, 11)


def check_python(_settings: Settings) -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < MIN_PYTHON:
        return failed("python", f"Python {version} is too old; Bough needs 3.11 or later.")
    return ok("python", f"Python {version}")


def check_user(_settings: Settings) -> Finding:
    uid = os.geteuid()
    try:
        return ok("user", f"{pwd.getpwuid(uid).pw_name} (user id {uid})")
    except KeyError:
        sentence = f"The user id {uid} has no entry in /etc/passwd, and Postgres does not run without one."
        return failed("user", sentence, f"echo 'bough:x:{uid}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd")


def check_isolation(settings: Settings) -> Finding:
    """Root gives every project a user id of its own, if this machine or container has them to give."""
    if not is_root():
        sentence = "Not started by root: all computes run as you, so projects are not isolated from one another."
        return warning("isolation", sentence, f"sudo {output.program_name()} up")
    first, last = settings.project_uids
    if not _has_user_ids(first, last):
        sentence = f"The user ids {first} to {last} (setting 'project_uids') do not exist in this container."
        return failed("isolation", sentence, "export BOUGH_PROJECT_UIDS='[10000, 60000]'")
    return ok("isolation", f"every project gets a user id of its own, from {first} to {last}")


def check_gateway_user(settings: Settings) -> Finding:
    """As root the gateway has a user of its own, which the first start adds."""
    name = settings.gateway_user
    if not is_root():
        return ok("gateway", "runs as you")
    if system_users.user_exists(name):
        return ok("gateway", f"runs as the user {name}")
    if system_users.can_add_users():
        return ok("gateway", f"runs as the user {name}, who will be added")
    sentence = f"The gateway needs a user {name}, and useradd is not here to add it."
    return failed("gateway", sentence, system_users.useradd_command_line(name))


def check_limits(settings: Settings) -> Finding:
    """Computes run without limits too; then one of them can take all of the machine."""
    groups = cgroups.detect_cgroups(settings)
    if groups.kind == "none":
        return warning("limits", f"Nothing keeps a compute within its size: {groups.unavailable_reason}.")
    return ok("limits", groups.summary)


def check_confinement(settings: Settings) -> Finding:
    """What code of a tenant finds in its compute, if it ever gets there."""
    lacking = launcher.probe_unavailable(MountNamespace.from_settings(settings))
    calls = lacking.get(launcher.SYSCALL_FILTER)
    mounts = lacking.get(launcher.MOUNT_NAMESPACE)
    filtered = (
        f"system calls are not filtered ({calls})" if calls else "system calls that computes never need are refused"
    )
    if not is_root():
        return ok("confinement", f"without root computes may execute what they write; {filtered}")
    if not mounts and not calls:
        return ok("confinement", f"computes execute nothing that they write; {filtered}")
    executed = (
        f"computes may execute what they write ({mounts})" if mounts else "computes execute nothing that they write"
    )
    sentence = f"Code of a tenant finds more in its compute than it could: {executed}; {filtered}."
    return warning(
        "confinement", sentence, "allow CAP_SYS_ADMIN, unshare, mount and seccomp to the service or container"
    )


def _has_user_ids(first: int, last: int) -> bool:
    """Root of a container owns only the ids that are mapped into it."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    spans = [[int(part) for part in line.split()] for line in lines]
    return any(start <= first and last < start + length for start, _outside, length in spans)


def check_postgres(settings: Settings) -> Finding:
    missing = postgres_install.find_missing_versions(settings)
    if not missing:
        return ok("postgres", "Postgres " + ", ".join(str(version) for version in settings.postgres_versions))
    problem = postgres_install.find_fetch_problem()
    if problem:
        return failed("postgres", *problem)
    return ok("postgres", f"Postgres {', '.join(str(version) for version in missing)} will be fetched")


def check_ports(settings: Settings) -> Finding:
    running = state.read_running(settings)
    if running:
        return ok("ports", f"{running.api_port} and {running.gateway_port}, used by this platform")
    problem = ports.find_error(settings)
    if problem:
        return failed("ports", problem.public_message)
    return ok("ports", ports.describe_next_ports(settings))
