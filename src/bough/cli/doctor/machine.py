"""Checks of the machine and of the user that runs the platform."""

import os
import pwd
import sys
from pathlib import Path

from bough.cli import output
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
        message = f"The user id {uid} has no entry in /etc/passwd, and Postgres does not run without one."
        return failed("user", message, f"echo 'bough:x:{uid}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd")


def check_isolation(settings: Settings) -> Finding:
    """As root each project gets its own user id, if this machine or container provides the range."""
    if not is_root():
        message = "Bough does not run as root: all computes run as your user, so projects are not isolated."
        return warning("isolation", message, f"sudo {output.format_command('up', settings.home, as_root=True)}")
    first, last = settings.project_uids
    if not _has_user_ids(first, last):
        message = f"The user ids {first} to {last} (setting 'project_uids') do not exist in this container."
        return failed("isolation", message, "export BOUGH_PROJECT_UIDS='[10000, 60000]'")
    return ok("isolation", f"each project gets its own user id, from {first} to {last}")


def check_gateway_user(settings: Settings) -> Finding:
    """As root the gateway runs as its own user, which the first start creates."""
    name = settings.gateway_user
    if not is_root():
        return ok("gateway", "runs as your user")
    if system_users.user_exists(name):
        return ok("gateway", f"runs as the user {name}")
    if system_users.can_add_users():
        return ok("gateway", f"runs as the user {name}, which will be created")
    message = f"The gateway needs a user {name}, and useradd is not installed to create it."
    return failed("gateway", message, system_users.useradd_command_line(name))


def check_limits(settings: Settings) -> Finding:
    """Computes also run without limits, but then one of them can use the whole machine."""
    groups = cgroups.detect_cgroups(settings)
    if groups.kind == "none":
        return warning("limits", f"The size of computes is not enforced: {groups.unavailable_reason}.")
    return ok("limits", groups.summary)


def check_confinement(settings: Settings) -> Finding:
    """Report what a tenant's code could do inside its compute."""
    unavailable = launcher.probe_unavailable(MountNamespace.from_settings(settings))
    filter_problem = unavailable.get(launcher.SYSCALL_FILTER)
    mount_problem = unavailable.get(launcher.MOUNT_NAMESPACE)
    system_calls = (
        f"system calls are not filtered ({filter_problem})"
        if filter_problem
        else "system calls that computes do not need are blocked"
    )
    if not is_root():
        return ok("confinement", f"without root, computes can execute files that they write; {system_calls}")
    if not mount_problem and not filter_problem:
        return ok("confinement", f"computes cannot execute files that they write; {system_calls}")
    execution = (
        f"computes can execute files that they write ({mount_problem})"
        if mount_problem
        else "computes cannot execute files that they write"
    )
    return warning(
        "confinement",
        f"Computes are not fully confined: {execution}; {system_calls}.",
        "allow CAP_SYS_ADMIN, unshare, mount and seccomp in the service or container",
    )


def _has_user_ids(first: int, last: int) -> bool:
    """Root in a container owns only the ids that are mapped into it."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    ranges = [[int(part) for part in line.split()] for line in lines]
    return any(start <= first and last < start + length for start, _outside, length in ranges)


def check_ports(settings: Settings) -> Finding:
    running = state.read_running(settings)
    if running:
        return ok("ports", f"{running.api_port} and {running.gateway_port}, in use by this platform")
    error = ports.find_error(settings)
    if error:
        return failed("ports", error.public_message)
    return ok("ports", ports.describe_next_ports(settings))
