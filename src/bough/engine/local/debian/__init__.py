"""Debian packages without apt or dpkg: find a mirror, check the signed index, resolve, download and unpack.

Nothing here changes the packages of the machine, and no script of a package runs.
"""
