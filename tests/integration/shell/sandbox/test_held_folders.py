"""Folders of the workspace that lead to files of the sandbox, or to what is hidden, can't be moved out of the way."""

from __future__ import annotations

from tests.integration.shell.sandbox.cell import Cell
from vibe.shell.sandbox.confinement import Confinement

FORGED = r"""
mv scratch old && for box in old/deep/vibe-run-*; do
  new=scratch/deep/${box##*/}; mkdir -p "$new"; cp "$box"/* "$new"
  for file in $(grep -la ro-bind "$new"/*); do printf '%s\0' --bind BASE BASE >> "$file"; done
done; true
"""
"""Moves the folder for temporary files away, and puts options in its place with which the next command could write
everywhere."""


async def test_no_command_forges_the_options_of_the_next_one(cell: Cell) -> None:
    scratch = cell.root / "scratch" / "deep"
    scratch.mkdir(parents=True)
    (cell.base / "kept").write_text("mine\n")
    cell.environ["TMPDIR"] = str(scratch)
    cell.configure(cell.settings)

    write = f"echo changed > {cell.base}/kept; true"
    forge = FORGED.replace("BASE", str(cell.base))
    for line in (write, forge, "true", forge, write):
        await cell.run(line)
    assert (cell.base / "kept").read_text() == "mine\n"
    assert not (cell.root / "old").exists()


async def test_what_is_hidden_below_the_workspace_stays_hidden_once_its_folder_is_moved(cell: Cell) -> None:
    home = cell.root / "ci" / "cache" / "vibe"
    home.mkdir(parents=True)
    (home / ".env").write_text("KEY=CANARY\n")
    (home / "config.toml").write_text("# mine\n")
    cell.confinement = Confinement(cell.settings, cell.environ, home, backends=[cell.backend])

    await cell.run("mv ci ic; mv ci/cache ci/c; true")
    found = await cell.run("cat */*/vibe/.env; echo '# theirs' > ic/cache/vibe/config.toml")
    assert "CANARY" not in found.stdout
    assert (home / "config.toml").read_text() == "# mine\n"


async def test_no_command_chooses_where_a_path_of_the_settings_leads(cell: Cell) -> None:
    outside, keys = cell.base / "outside", cell.base / "home" / ".ssh"
    outside.mkdir()
    (keys / "id_ed25519").write_text("CANARY\n")
    granted = {"writable": (str(cell.root / "out"),), "readable": (str(cell.root / "key"),)}
    cell.configure(cell.settings.model_copy(update=granted))

    await cell.run(f"ln -s {outside} out; ln -s {keys} key; true")
    found = await cell.run(f"echo evil > {outside}/x; cat {keys}/id_ed25519; ls -l out key")
    assert "CANARY" not in found.stdout
    assert not any(outside.iterdir())


async def test_a_link_in_the_place_of_the_workspace_opens_nothing(cell: Cell) -> None:
    cell.folder, outside = cell.root / "inner", cell.base / "outside"
    cell.folder.mkdir()
    outside.mkdir()
    cell.configure(cell.settings.model_copy(update={"writable": (str(cell.root),)}))

    await cell.run(f"cd .. && mv inner other && ln -s {outside} inner; true")
    await cell.run(f"echo evil > {outside}/x; echo evil > x; true")
    assert not any(outside.iterdir())
