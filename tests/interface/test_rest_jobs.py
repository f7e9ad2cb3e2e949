"""Jobs over HTTP: reindexing as the page has it, and the queue for its owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ears import Ear
from rest_api import Api, Key, keys_of, served

from mindhold.contracts.rest import resources

KEYS = {
    "ada": Key(agent="ada"),
    "mallory": Key(agent="mallory"),
    "guest": Key(agent="ada", scopes=("work",)),
    "reader": Key(access="read"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("jobs") / "home"
    return {"home": home, **keys_of(home, KEYS, scopes=("work", "shop"))}


@pytest.fixture(scope="module")
def api(keys: dict[str, Any]) -> Iterator[Api]:
    with served(keys["home"]) as api:
        for number in range(3):
            body = {"message_type": "user", "content": f"Where does crate {number} go?"}
            api.get("save_message", body, project_id="work")
        yield api


def finished(api: Api, begin: Any) -> dict[str, Any]:
    """The last that is told of a job that is begun."""
    with Ear(str(api.client.base_url), key=api.key, topics="jobs") as ear:
        job = begin()["job_id"]
        heard = ear.until(lambda event: event.data["id"] == job and event.data["state"] == "done")
        return heard[-1].data


def test_the_page_s_example(api: Api) -> None:
    answer = api.get("reindex_project", project_id="work")
    assert answer == {
        "status": "nothing_to_do",
        "total_messages": 3,
        "messages_to_index": 0,
        "estimated_time_seconds": 0,
        "job_id": None,
    }
    forced: dict[str, Any] = {}

    def begin() -> dict[str, Any]:
        forced.update(api.get("reindex_project", query={"force": "true"}, project_id="work"))
        return forced

    done = finished(api, begin)
    assert (forced["status"], forced["messages_to_index"]) == ("reindexing_started", 3)
    assert forced["estimated_time_seconds"] >= 1
    assert done["progress"] == 1.0
    shown = api.get("reindex_status", project_id="work", job_id=forced["job_id"])
    assert (shown["status"], shown["progress"], shown["done"], shown["total"]) == ("done", 1.0, 3, 3)
    assert shown["error"] is None
    job = api.get("show_job", job_id=forced["job_id"])
    assert (job["name"], job["state"], job["progress"]) == ("reindex", "done", 1.0)
    assert forced["job_id"] in [one["id"] for one in api.get("list_jobs")["jobs"]]


def test_what_has_ended_is_given_up_no_more(api: Api) -> None:
    job = finished(api, lambda: api.get("reindex_project", query={"force": "true"}, project_id="work"))["id"]
    for name, path in (
        ("cancel_reindex", {"project_id": "work"}),
        ("delete_reindex", {"project_id": "work"}),
        ("cancel_job", {}),
        ("retry_job", {}),
    ):
        assert api.refused(name, job_id=job, **path) == (409, "CONFLICT")


def test_what_is_not_there(api: Api) -> None:
    assert api.refused("reindex_project", project_id="nowhere") == (404, "PROJECT_NOT_FOUND")
    for name in ("reindex_status", "cancel_reindex", "delete_reindex"):
        assert api.refused(name, project_id="nowhere", job_id="x") == (404, "PROJECT_NOT_FOUND")
        assert api.refused(name, project_id="work", job_id="x") == (404, "JOB_NOT_FOUND")
    for name in ("show_job", "retry_job", "cancel_job"):
        assert api.refused(name, job_id="x") == (404, "JOB_NOT_FOUND")
    assert api.refused("reindex_project", query={"force": "perhaps"}, project_id="work")[0] == 400


def test_jobs_of_others_are_not_there(api: Api, keys: dict[str, Any]) -> None:
    ada, mallory, guest = (api.by(keys[name]) for name in ("ada", "mallory", "guest"))
    api.get("save_message", {"message_type": "user", "content": "Tea?"}, project_id="shop")
    job = finished(ada, lambda: ada.get("reindex_project", query={"force": "true"}, project_id="shop"))
    for other in (mallory, api.by(keys["reader"])):
        assert other.refused("reindex_status", project_id="shop", job_id=job["id"]) == (404, "JOB_NOT_FOUND")
    assert guest.refused("reindex_status", project_id="shop", job_id=job["id"]) == (404, "PROJECT_NOT_FOUND")
    assert guest.refused("reindex_project", project_id="shop") == (404, "PROJECT_NOT_FOUND")
    own = finished(guest, lambda: guest.get("reindex_project", query={"force": "true"}, project_id="work"))
    assert own["scope"] == "work"
    assert api.get("reindex_status", project_id="shop", job_id=job["id"])["status"] == "done"
    assert api.by(keys["reader"]).refused("reindex_project", project_id="work") == (403, "REFUSED")


@pytest.mark.parametrize("name", ["list_jobs", "run_jobs", "show_job", "retry_job", "cancel_job"])
def test_the_queue_is_the_owner_s(api: Api, keys: dict[str, Any], name: str) -> None:
    path = {"job_id": "x"} if name.endswith("_job") else {}
    body: dict[str, Any] | None = {} if name == "run_jobs" else None
    for key in ("ada", "guest", "reader"):
        assert api.by(keys[key]).refused(name, body, **path) == (403, "REFUSED")


def test_what_is_due_is_run_and_waited_for(api: Api) -> None:
    answer = api.get("run_jobs", {"most": 50, "seconds": 20})
    assert answer["more"] is False
    assert all(job["error"] is None for job in answer["ran"])


def test_every_row_is_named_once() -> None:
    assert len({row.name for row in resources.JOB_RESOURCES}) == len(resources.JOB_RESOURCES)
    assert {row.section for row in resources.JOB_RESOURCES} == {"Project memory", "Jobs", "Events"}
