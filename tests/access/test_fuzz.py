"""The API under fuzzing, on a real `up`: no 500, every answer as documented, in bounded time, and nothing is broken."""

import pytest

from tests.access.fuzzing import Report, fuzz
from tests.access.test_token import token, url
from tests.serving import Up


def judge(up: Up, *, examples: int, number: int) -> Report:
    try:
        report = fuzz(url(up), token(up), "test/chat", examples=examples, number=number)
    except Exception as error:
        error.add_note(f"seed {number}")
        raise
    assert "Traceback" not in up.said()
    assert not [(name, codes) for name, codes in report.statuses.items() if {500, 502, 504} & codes.keys()]
    assert len(report.statuses) == 13, "an operation was left out"
    for hold in up.api("GET", "/v1/holds").json():
        up.api("DELETE", f"/v1/holds/{hold['id']}")
    assert up.api("GET", "/readyz").status_code == 200
    return report


def test_a_little(up: Up) -> None:
    report = judge(up, examples=10, number=1)
    assert report.statuses["POST /v1/holds"].keys() >= {201, 422}
    assert report.statuses["GET /v1/services/{ns}/{name}/preview"].keys() >= {200, 422}


@pytest.mark.prove
@pytest.mark.parametrize("number", range(3))
def test_much(up: Up, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = judge(up, examples=300, number=number)
    with capsys.disabled():
        print(f"\nseed {number}: slowest {report.slowest_s:.2f} s")
        for name, codes in report.statuses.items():
            print(f"  {name}: {', '.join(f'{code} × {count}' for code, count in sorted(codes.items()))}")
