"""Whether a new home gets a storage image. tests/cli/test_storage_first_start.py has what `bough up` does then."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.images import new_home
from bough.engine.port import EngineError
from support.loop_images import mount_loop_image
from support.platform import temporary_folder
from support.requirements import require_cow

DISK_MB = 1600
MB = 1024**2


@pytest.fixture
def disk() -> Iterator[Path]:
    require_cow()
    with mount_loop_image("ext4", DISK_MB) as folder:
        (folder / "home").mkdir()
        yield folder


def test_a_new_home_on_ext4_gets_a_thin_image(disk: Path) -> None:
    settings = Settings(home=disk / "home", free_space_floor=64 * MB)
    assert new_home.can_have_image(settings)
    assert new_home.wants_image(settings)
    image = new_home.plan_image(settings)
    assert image.thin
    assert new_home.MIN_SIZE < image.size < DISK_MB * MB


def test_the_operator_can_say_no(disk: Path) -> None:
    settings = Settings(home=disk / "home", free_space_floor=64 * MB, storage="plain")
    assert not new_home.can_have_image(settings)
    assert not new_home.wants_image(settings)


@pytest.mark.parametrize("name", ["store.db", "storage.json", "volumes"])
def test_a_home_that_has_data_stays_as_it_is(disk: Path, name: str) -> None:
    settings = Settings(home=disk / "home", free_space_floor=64 * MB)
    (settings.home / name).touch()
    assert not new_home.can_have_image(settings)
    assert not new_home.wants_image(settings)


def test_a_disk_with_little_space_gets_none(disk: Path) -> None:
    settings = Settings(home=disk / "home", free_space_floor=DISK_MB * MB)
    assert not new_home.can_have_image(settings)
    with pytest.raises(EngineError, match="of free space, and a storage image needs"):
        new_home.plan_image(settings)


def test_a_home_in_memory_gets_none() -> None:
    with temporary_folder() as folder:
        if not folder.is_relative_to("/dev/shm"):
            pytest.skip("/dev/shm is not writable")
        settings = Settings(home=folder)
        assert new_home.wants_image(settings)
        with pytest.raises(EngineError, match="The home is on tmpfs, where no storage image is created"):
            new_home.plan_image(settings)
