"""Certificates of a cluster, written by their owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.full_disk import file_size_limit
from vibe.app.cluster.certificates import write_certificates
from vibe.system.errors import EnvironmentFailure


def test_where_the_disk_is_full_nothing_is_left_and_the_next_try_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"

    with (
        file_size_limit(100),
        pytest.raises(EnvironmentFailure, match=r"can't be written .File too large.: raise the limit"),
    ):
        write_certificates(folder)

    assert list(folder.iterdir()) == []
    assert write_certificates(folder).ca.is_file()
