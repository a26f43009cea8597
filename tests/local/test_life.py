"""The life of a service in local mode: from zero, ahead of requests, back to zero, through edits."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from tests.fakes.model import make_model
from tests.serving import Up, running, service, wait_for


def test_from_zero_and_back(up: Up) -> None:
    make_model(up.models / "chat", start_s=0.3)
    (up.files / "chat.yaml").write_text(service("chat", cost="1s"))
    with running(up):
        assert up.engines() == []
        assert up.status("chat")["warmth"] == "cold"
        first = up.ask("chat")
        assert first.status_code == 200
        assert float(first.headers["x-pilotlight-waited-ms"]) > 0
        second = up.ask("test/chat")
        assert second.json()["choices"] == first.json()["choices"]
        up.wait_warmth("chat", "cold")
        wait_for(lambda: not up.engines(), within_s=20, saying="engines are gone")
        (start,) = up.starts("chat")
        assert (start["outcome"], start["kind"]) == ("ready", "cold-node")
        assert up.ask("chat").json()["choices"] == first.json()["choices"]
        assert up.starts("chat")[0]["kind"] == "cached-node"


def test_fifty_clients_one_start(up: Up) -> None:
    make_model(up.models / "chat", start_s=0.5)
    (up.files / "chat.yaml").write_text(service("chat", policy="queue: {target: 100}"))
    with running(up), ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: up.ask("chat"), range(50)))
        assert [answer.status_code for answer in answers] == [200] * 50
        assert len({answer.text.split('"choices"')[1] for answer in answers}) == 1
        assert len(up.starts("chat")) == 1


def test_a_hold_warms_it_without_a_request_and_ends(up: Up) -> None:
    make_model(up.models / "chat")
    (up.files / "chat.yaml").write_text(
        service("chat", policy="leadTime: {prior: 2s}").replace("  leadTime: {prior: 60s}\n", "")
    )
    with running(up):
        ready_by = datetime.now(UTC) + timedelta(seconds=4)
        body = {"service": "test/chat", "for_s": 3, "ready_by": ready_by.isoformat(), "reason": "a demo"}
        hold = up.api("POST", "/v1/holds", body)
        assert hold.status_code == 201, hold.text
        status = up.wait_warmth("chat", "warm")
        assert status["replicas"][0]["ready_at"] <= ready_by.isoformat()
        assert status["reason"]["code"] in ("hold-ready-by", "hold-active")
        up.wait_warmth("chat", "cold")
        assert "demo" in str(up.events())
        assert float(up.starts("chat")[0]["ready_s"]) > 0


def test_a_failing_start_is_told_to_the_waiting_client(up: Up) -> None:
    make_model(up.models / "chat", exit_at={"stage": "weight_load", "code": 3})
    (up.files / "chat.yaml").write_text(service("chat"))
    with running(up):
        answer = up.ask("chat")
        assert answer.status_code == 503
        assert "3" in answer.json()["error"]["message"]
        assert int(answer.headers["retry-after"]) >= 1
        status = up.status("chat")
        assert (status["warmth"], status["last_failure"]["cause"]) == ("failed", "exited")


def test_a_bad_edit_is_told_and_the_last_good_state_stays(up: Up) -> None:
    make_model(up.models / "chat")
    file = up.files / "chat.yaml"
    good = service("chat")
    file.write_text(good)
    with running(up):
        assert up.ask("chat").status_code == 200
        file.write_text(good.replace("coldStartCost: 2s", "coldStartCost: soon"))
        wait_for(lambda: "coldStartCost" in up.said(), within_s=20, saying="the finding")
        assert up.ask("chat").status_code == 200
        file.write_text(good.replace("chat", "other").replace("models/other", "models/chat"))
        wait_for(
            lambda: "test/other" in str(up.api("GET", "/v1/services").json()), within_s=20, saying="the new service"
        )
        assert up.ask("chat").status_code == 404
        assert up.ask("other").status_code == 200


def test_a_changed_engine_is_replaced_while_the_old_one_serves(up: Up) -> None:
    make_model(up.models / "chat", start_s=0.3)
    file = up.files / "runtime.yaml"
    (up.files / "chat.yaml").write_text(service("chat", cost="60s"))
    with running(up):
        assert up.ask("chat").status_code == 200
        before = up.status("chat")["replicas"][0]["pid"]
        file.write_text(file.read_text().replace("--max-num-seqs=8", "--max-num-seqs=4"))

        def replaced() -> bool:
            assert up.ask("chat").status_code == 200
            pids = [replica["pid"] for replica in up.status("chat")["replicas"]]
            return len(pids) == 1 and pids[0] not in (before, None)

        wait_for(replaced, within_s=30, saying="a new engine alone")


def test_two_replicas_for_many_requests(up: Up) -> None:
    make_model(up.models / "chat", answer_s=2)
    (up.files / "chat.yaml").write_text(service("chat", policy="queue: {target: 1}"))
    with running(up), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: up.ask("chat"), range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len(up.starts("chat")) == 2


def test_two_hundred_services_at_zero(up: Up) -> None:
    make_model(up.models / "chat")
    for number in range(200):
        (up.files / f"c{number}.yaml").write_text(service(f"c{number}", model="chat"))
    with running(up):
        assert up.ask("c7").status_code == 200
        assert len(up.api("GET", "/v1/services").json()) == 200
        assert len(up.engines()) == 1
