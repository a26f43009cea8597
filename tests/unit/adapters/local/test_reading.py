"""What is given as FILE: pipes, devices, links, files that change or may not be read, standard input."""

import errno
import os
import socket
from pathlib import Path

import pytest

from activator_ext.adapters.local.findings import MOST_PER_FILE, Findings
from activator_ext.adapters.local.manifests import load
from tests.unit.adapters.local.build import RUNTIME, Files, service


def test_what_is_given_instead_of_a_file_is_named(files: Files) -> None:
    os.mkfifo(files.yaml / "pipe")
    os.symlink("loop", files.yaml / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(files.yaml / "sock"))
        named = ["pipe", "sock", "loop"]
        loaded = load([*(files.yaml / name for name in named), Path("/dev/zero"), Path("-")], {})
    assert [files.short(str(finding)) for finding in loaded.findings] == [
        "-:1: error: standard input is read by `pilotlight check` only. Name a file or a directory.",
        "/dev/zero:1: error: it is a device, not a file. Name a file or a directory.",
        "loop:1: error: it is a link that leads back to itself. Correct or remove the link.",
        "pipe:1: error: it is a pipe, not a file. Name a file or a directory.",
        "sock:1: error: it is a socket, not a file. Name a file or a directory.",
    ]


def test_an_unreadable_file_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    files.write(f=service())
    monkeypatch.setattr(os, "open", refused)
    assert files.said() == ["f.yaml:1: error: it cannot be read (Permission denied). Check the path and its rights."]


def writes_while_read(files: Files, monkeypatch: pytest.MonkeyPatch, times: int, text: str) -> None:
    """The file is written after it was opened, as often as `times` says."""
    left = [times]
    real = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if left[0]:
            left[0] -= 1
            (files.yaml / "f.yaml").write_text(text + "#" * left[0])
        return status

    monkeypatch.setattr(os, "fstat", fstat)


def test_a_file_written_while_it_is_read_is_read_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(f="kind: [", runtime=RUNTIME)
    writes_while_read(files, monkeypatch, 1, service())
    loaded = load([files.yaml / "f.yaml", files.yaml / "runtime.yaml"], {"models": files.models})
    assert loaded.findings == ()
    assert [str(found.id) for found in loaded.services] == ["default/chat"]


def test_a_file_that_never_rests_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(f=service())
    writes_while_read(files, monkeypatch, 100, service())
    loaded = load([files.yaml / "f.yaml"], {})
    assert [files.short(str(finding)) for finding in loaded.findings] == [
        "f.yaml:1: error: it changes while it is read. Check again when it is written."
    ]


def test_a_file_that_becomes_a_pipe_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of a pipe without a writer waits for ever; here it would be this test."""
    path = files.yaml / "f.yaml"
    path.write_text(service())
    real = os.open

    def swapped(file: Path, flags: int) -> int:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return real(file, flags)

    monkeypatch.setattr(os, "open", swapped)
    loaded = load([path], {})
    assert [files.short(str(finding)) for finding in loaded.findings] == [
        "f.yaml:1: error: it is a pipe, not a file. Remove it from the directory, or check its link."
    ]


def test_standard_input_is_read_beside_files(files: Files) -> None:
    files.write(runtime=RUNTIME)
    loaded = load([files.yaml], {"models": files.models}, stdin=service(predictor="zzz: 1\n").encode())
    assert [str(finding).partition(" Known")[0] for finding in loaded.findings] == [
        "-:7: error: spec.predictor.zzz: unknown key."
    ]


def test_findings_of_one_file_are_bounded_and_counted() -> None:
    findings = Findings()
    for line in range(1, MOST_PER_FILE + 8):
        findings.error("a.yaml", line, "", "wrong", "Mend it.")
    findings.error("a.yaml", 1, "", "wrong", "Mend it.")
    findings.warning("b.yaml", 1, "", "odd", "Look.")
    said = [str(finding) for finding in findings.sorted()]
    assert len(said) == MOST_PER_FILE + 2
    assert said[-2:] == [
        f"a.yaml:{MOST_PER_FILE}: error: 7 more errors of this file are not shown. Mend those above first.",
        "b.yaml:1: warning: odd. Look.",
    ]
