"""The portal's compiled form is taken only if it is of exactly this source."""

import subprocess
import sys
from pathlib import Path

from activator_ext.portal import compiled

PROBE = """
import sys
from pathlib import Path
from activator_ext.portal import compiled
print(compiled.use(Path(sys.argv[1]) if sys.argv[1:] else None))
from activator_ext.portal import loads
print(loads.__file__)
"""


def probe(*arguments: str) -> list[str]:
    """Whether a new process would use it, and from where one of its modules then comes."""
    run = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.split("\n")[:2]


def test_without_it_the_source_is_used(tmp_path: Path) -> None:
    assert probe(str(tmp_path)) == ["False", str(Path(compiled.__file__).with_name("loads.py"))]


def test_what_lies_there_is_used(tmp_path: Path) -> None:
    modules = tmp_path / "activator_ext" / "portal"
    modules.mkdir(parents=True)
    (modules / "loads.py").touch()
    assert probe(str(tmp_path)) == ["True", str(modules / "loads.py")]


def test_an_edit_is_another_place(tmp_path: Path) -> None:
    source = Path(compiled.__file__).parent
    copy = tmp_path / "portal"
    copy.mkdir()
    for path in source.glob("*.py"):
        (copy / path.name).write_bytes(path.read_bytes())
    same = compiled.place(tmp_path, source=copy)
    edited = copy / "loads.py"
    edited.write_text(edited.read_text() + "# an edit\n")
    assert same == compiled.place(tmp_path)
    assert same != compiled.place(tmp_path, source=copy)


def test_every_module_named_is_there() -> None:
    assert {f"{name}.py" for name in compiled.MODULES} <= {
        path.name for path in Path(compiled.__file__).parent.glob("*.py")
    }


def test_a_portal_runs_compiled_where_it_is() -> None:
    """`make test` compiles first: that the black-box tests meet the compiled form is seen here."""
    used, where = probe()
    assert used == str(compiled.place().is_dir())
    assert Path(where).suffix == (".so" if compiled.place().is_dir() else ".py")
