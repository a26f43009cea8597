"""Installed software: a rebuilt wheel is another, a second installation of the same one is not."""

from pathlib import Path

import pytest

from runtime.cache.wheels import compiler_inputs, software_inputs, wheel_inputs

RECORD = "{name}/__init__.py,sha256=aa,10\n{name}/_C.so,sha256=bb,20\n"


def install(site: Path, name: str, version: str = "1.0", record: str = RECORD, points: str = "") -> Path:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text(record.format(name=name))
    if points:
        (info / "entry_points.txt").write_text(points)
    return info


def test_equal_wheels_are_equal_however_they_were_installed(tmp_path: Path) -> None:
    install(tmp_path / "pip", "torch")
    rows = [
        "../../../bin/torchrun,sha256=cc,200\n",
        "torch-1.0.dist-info/INSTALLER,sha256=dd,3\n",
        "torch-1.0.dist-info/RECORD,,\n",
        "torch/__pycache__/__init__.cpython-311.pyc,,\n",
        *reversed(RECORD.format(name="torch").splitlines(keepends=True)),
    ]
    install(tmp_path / "uv", "torch", record="".join(rows))
    assert wheel_inputs([tmp_path / "pip"]) == wheel_inputs([tmp_path / "uv"])


def test_a_rebuilt_wheel_of_the_same_version_is_another(tmp_path: Path) -> None:
    install(tmp_path / "one", "torch")
    install(tmp_path / "two", "torch", record=RECORD.replace("bb", "ee"))
    one, two = wheel_inputs([tmp_path / "one"]), wheel_inputs([tmp_path / "two"])
    assert one["wheel.torch"].startswith("1.0 sha256:")
    assert one != two


def test_what_compiles_nothing_is_no_input(tmp_path: Path) -> None:
    install(tmp_path, "torch")
    install(tmp_path, "requests")
    assert set(wheel_inputs([tmp_path])) == {"wheel.torch"}


def test_names_are_read_as_the_installers_write_them(tmp_path: Path) -> None:
    install(tmp_path, "flashinfer_python")
    install(tmp_path, "DeepGEMM".replace("DeepGEMM", "Deep.Gemm"))
    assert set(wheel_inputs([tmp_path])) == {"wheel.flashinfer-python", "wheel.deep-gemm"}


def test_a_foreign_plugin_of_the_engine_is_an_input_and_ours_is_not(tmp_path: Path) -> None:
    install(tmp_path, "their_models", points="[vllm.general_plugins]\nx = y:z\n")
    install(tmp_path, "pilotlight", points="[vllm.general_plugins]\nx = y:z\n")
    install(tmp_path, "other", points="[console_scripts]\nx = y:z\n")
    assert set(wheel_inputs([tmp_path])) == {"plugin.their-models"}


def test_of_two_places_the_first_is_imported(tmp_path: Path) -> None:
    install(tmp_path / "one", "torch")
    install(tmp_path / "two", "torch", version="2.0")
    assert wheel_inputs([tmp_path / "one", tmp_path / "two"])["wheel.torch"].startswith("1.0 ")


def test_a_wheel_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    info = install(tmp_path, "torch")
    before = wheel_inputs([tmp_path])
    (info / "RECORD").write_text(RECORD.format(name="torch") + "torch/more.py,sha256=ff,1\n")
    assert wheel_inputs([tmp_path]) != before


def test_an_editable_installation_counts_by_its_sources(tmp_path: Path) -> None:
    source = tmp_path / "src" / "vllm"
    source.mkdir(parents=True)
    (source / "a.py").write_text("1")
    info = install(tmp_path / "site", "vllm", record="__editable__.vllm.pth,sha256=aa,1\n")
    (info / "direct_url.json").write_text(f'{{"url": "file://{tmp_path}/src", "dir_info": {{"editable": true}}}}')
    before = wheel_inputs([tmp_path / "site"])
    assert "editable" in before["wheel.vllm"]
    (source / "a.py").write_text("22")
    assert wheel_inputs([tmp_path / "site"]) != before


def test_a_distribution_without_a_record_says_so(tmp_path: Path) -> None:
    (install(tmp_path, "torch") / "RECORD").unlink()
    assert wheel_inputs([tmp_path]) == {"wheel.torch": "1.0 without a RECORD"}


@pytest.fixture
def compilers(tmp_path: Path) -> Path:
    for name in ("g++", "gcc", "clang++"):
        (tmp_path / name).write_text(f"#!{name}")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_the_compiler_counts_by_its_content(compilers: Path) -> None:
    environ = {"PATH": str(compilers)}
    before = compiler_inputs(environ)
    assert before["compiler.cxx"].startswith("g++ sha256:")
    assert compiler_inputs({**environ, "CXX": "clang++ -stdlib=libc++"})["compiler.cxx"].startswith("clang++ sha256:")
    (compilers / "g++").write_text("#! a newer one")
    assert compiler_inputs(environ) != before


def test_no_compiler_is_an_input_too(tmp_path: Path) -> None:
    assert compiler_inputs({"PATH": str(tmp_path)})["compiler.cxx"] == "none"


def test_this_software_is_read() -> None:
    found = software_inputs()
    assert "cpython-311" in found["python.abi"] or found["python.abi"]
    assert {"libc", "python.prefix", "python.site", "compiler.cxx"} <= set(found)
