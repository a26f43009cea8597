"""What is told when the user's files change."""

from pathlib import Path

from activator_ext.app.files import Files
from activator_ext.core.model import ServiceId
from tests.fakes.model import make_model
from tests.serving import runtime, service


class Reader:
    """Files in a folder, and what was told of them since the last look."""

    def __init__(self, root: Path) -> None:
        make_model(root / "models" / "chat")
        self.file = root / "chat.yaml"
        (root / "runtime.yaml").write_text(runtime())
        self.told: list[str] = []
        self.services: list[str] = []
        self.files = Files(
            [root],
            {"models": root / "models"},
            "cpu",
            changed=lambda services: self.services.__setitem__(slice(None), map(str, services)),
            report=self.told.append,
        )

    def write(self, text: str) -> list[str]:
        self.told.clear()
        self.file.write_text(text)
        self.files.read()
        return list(self.told)


def test_what_is_told_of_edits(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    good = service("chat")
    assert reader.write(good) == []
    assert reader.write(good + "# a remark\n") == []
    assert reader.write(good.replace("2s", "3s")) == ["the files were read again: test/chat changed"]
    (finding, stays) = reader.write(good.replace("2s", "soon"))
    assert "chat.yaml:" in finding
    assert "coldStartCost" in finding
    assert "stays in force" in stays
    assert reader.services == [str(ServiceId("test", "chat"))]
    (other,) = reader.write(good.replace("2s", "later"))
    assert "later" in other
    assert reader.write(good.replace("2s", "3s")) == ["the files are good again, and say what they said before"]
    assert reader.write(good + service("more", model="chat")) == [
        "the files were read again: test/chat changed, test/more is new"
    ]
    assert reader.write(good) == ["the files were read again: test/more is gone"]
