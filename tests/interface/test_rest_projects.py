"""Projects and scopes over HTTP, with a real server: made, changed, deleted, in each store; and who may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_api import Api, Json, Key, keys_of, served

from mindhold.contracts.rest import resources
from mindhold.operation_index import operation
from support.mongo_server import MongoServer
from support.postgres_server import PostgresServer

TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
KEYS = {"ada": Key(agent="ada"), "guest": Key(scopes=("garden",)), "reader": Key(access="read")}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("projects") / "home"
    return {"home": home, **keys_of(home, KEYS, scopes=("garden",))}


@pytest.fixture(scope="module")
def api(keys: dict[str, Any]) -> Iterator[Api]:
    with served(keys["home"]) as api:
        yield api


def test_every_row_of_projects(api: Api, tmp_path: Path) -> None:
    api.called.clear()
    _made_and_changed(api, tmp_path)
    _scopes(api)
    assert api.refused("migrate_project", {"to": "local"}, project_id="Global") == (403, "REFUSED")
    home = _home_of(api)
    stays = api.get("migrate_project", {"to": home}, project_id="shop")
    assert (stays["moved"], stays["target"]) == (False, home)
    _deleted(api)
    assert api.called - {"remember", "recall"} == {row.name for row in resources.PROJECT_RESOURCES}


def _made_and_changed(api: Api, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    given = {"name": "shop", "description": "Lamps", "path": str(folders[0])}
    answer = api.ask("create_project", given)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/projects/shop"
    made = answer.json()
    assert (made["id"], made["name"], made["memories"]) == ("shop", "shop", 0)
    assert made["created"] is not None
    assert made["settings"] == {
        "description": "Lamps",
        "active": True,
        "parent": None,
        "keywords": [],
        "path": str(folders[0]),
        "log_conversations": True,
    }
    assert api.refused("create_project", given) == (409, "CONFLICT")
    assert api.refused("create_project", {**given, "name": "other"}) == (409, "CONFLICT")
    listed = api.get("list_projects")
    assert "shop" in [one["id"] for one in listed["projects"]]
    changes = {"description": "Lamps and light", "path": str(folders[1]), "keywords": ["lamp"]}
    changed = api.get("change_project", changes, project_id="shop")
    assert {name: changed["settings"][name] for name in changes} == changes
    assert changed["identity"] == str(folders[1])
    away = api.get("change_project", {"active": False, "path": ""}, project_id="shop")
    assert (away["active"], away["path"], away["description"]) == (False, None, "Lamps and light")
    assert api.get("change_project", {"active": True}, project_id="shop")["active"]
    assert api.get("show_project", project_id="SHOP")["id"] == "shop"


def _scopes(api: Api) -> None:
    answer = api.ask("create_scope", {"name": "día / noche", "keywords": ["hours"]})
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/scopes/d%C3%ADa%20%2F%20noche"
    api.stored("The night is long.", scope="día / noche")
    assert api.get("show_scope", name="día / noche")["memories"] == 1
    changed = api.get("change_scope", {"description": "Hours", "keywords": ["h"]}, name="día / noche")
    assert (changed["description"], changed["keywords"]) == ("Hours", ["h"])
    assert api.get("rename_scope", {"new_name": "hours"}, name="día / noche")["name"] == "hours"
    assert "hours" in [one["name"] for one in api.get("list_scopes")["scopes"]]
    away = api.get("retire_scope", name="hours")
    assert (away["memories"], away["deleted"]) == (1, False)
    assert (api.home / "backups" / away["backup"]).is_file()
    search = {"query": "night long", "everywhere": True}
    assert api.get("recall", search)["hits"] == []
    assert api.get("revive_scope", name="hours")["active"]
    assert len(api.get("recall", search)["hits"]) == 1
    gone = api.get("delete_scope", name="hours")
    assert (gone["memories"], gone["receipt"]["empty"]) == (1, True)
    assert "The night is long." in Path(gone["export"]).read_text(encoding="utf-8")


def _deleted(api: Api) -> None:
    api.stored("The lamp supplier is Lumen.", scope="shop")
    for query in ({}, {"confirm": "Shop"}, {"confirm": ""}):
        assert api.refused("delete_project", query=query, project_id="shop") == (400, "INVALID_INPUT")
    assert api.refused("delete_project", query={"confirm": "Global"}, project_id="Global") == (403, "REFUSED")
    gone = api.get("delete_project", query={"confirm": "shop"}, project_id="shop")
    assert (gone["id"], gone["memories"], gone["storage_mode"]) == ("shop", 1, _home_of(api))
    assert not any(gone["remaining"].values())
    export = Path(gone["export"])
    assert export.parent == api.home / "export"
    assert "Lumen" in export.read_text(encoding="utf-8")
    assert api.refused("show_project", project_id="shop") == (404, "PROJECT_NOT_FOUND")
    assert api.refused("delete_project", query={"confirm": "shop"}, project_id="shop")[0] == 404


def _home_of(api: Api) -> str:
    home: str = api.get("list_projects")["home"]
    return home


def test_an_empty_project_is_exported_too(api: Api) -> None:
    api.get("create_project", {"name": "empty", "description": "Nothing yet"})
    gone = api.get("delete_project", query={"confirm": "empty"}, project_id="empty")
    lines = [json.loads(line) for line in Path(gone["export"]).read_text(encoding="utf-8").splitlines()]
    assert gone["memories"] == 0
    assert any("Nothing yet" in json.dumps(line) for line in lines)


def test_everybodys_memories_go_with_a_project(api: Api, keys: dict[str, Any]) -> None:
    api.get("create_project", {"name": "ours"})
    ada = api.by(keys["ada"])
    hers = ada.stored("The tulips are planted.", scope="ours")
    gone = api.get("delete_project", query={"confirm": "ours"}, project_id="ours")
    assert gone["memories"] == 1
    assert "tulips" in Path(gone["export"]).read_text(encoding="utf-8")
    assert ada.refused("show", id=hers) == (404, "MEMORY_NOT_FOUND")


def test_a_project_with_others_in_it_stays(api: Api) -> None:
    api.get("create_project", {"name": "above"})
    api.get("create_project", {"name": "below"})
    nested = api.get("change_project", {"parent": "above"}, project_id="below")
    assert nested["settings"]["parent"] == "above"
    kept = api.stored("It stays.", scope="above")
    assert api.refused("delete_project", query={"confirm": "above"}, project_id="above") == (409, "CONFLICT")
    assert api.get("show", id=kept)["memory"]["status"] == "active"
    assert api.refused("change_project", {"parent": "below"}, project_id="above") == (409, "CONFLICT")
    lifted = api.get("change_project", {"parent": "Global"}, project_id="below")
    assert lifted["settings"]["parent"] is None


@pytest.mark.parametrize(
    ("name", "given", "status", "code"),
    [
        ("create_project", {"body": {}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": ""}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": "a\nb"}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": "x" * 201}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": TOKEN}}, 400, "INVALID_INPUT"),
        ("create_scope", {"body": {"name": f"about {TOKEN}"}}, 400, "INVALID_INPUT"),
        ("rename_scope", {"name": "garden", "body": {"new_name": TOKEN}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": "x", "storage_mode": "attic"}}, 400, "INVALID_INPUT"),
        ("create_project", {"body": {"name": "Global"}}, 409, "CONFLICT"),
        ("create_project", {"body": {"name": "x", "path": "/no/such/folder"}}, 404, "NOT_FOUND"),
        ("create_project", {"body": {"name": "x", "path": "a\0b"}}, 404, "NOT_FOUND"),
        ("create_project", {"body": {"name": "x", "path": "~nobody-at-all/x"}}, 404, "NOT_FOUND"),
        ("create_project", {"body": {"name": "x", "path": "y" * 5000}}, 404, "NOT_FOUND"),
        ("show_project", {"project_id": "none"}, 404, "PROJECT_NOT_FOUND"),
        ("change_project", {"project_id": "none", "body": {"active": True}}, 404, "PROJECT_NOT_FOUND"),
        ("change_project", {"project_id": "garden", "body": {}}, 400, "INVALID_INPUT"),
        ("change_project", {"project_id": "garden", "body": {"parent": "none"}}, 404, "SCOPE_NOT_FOUND"),
        (
            "change_project",
            {"project_id": "garden", "body": {"storage_mode": "local"}},
            400,
            "INVALID_INPUT",
        ),
        ("change_project", {"project_id": "Global", "body": {"active": False}}, 403, "REFUSED"),
        ("change_project", {"project_id": "Global", "body": {"path": "."}}, 403, "REFUSED"),
        ("migrate_project", {"project_id": "garden", "body": {}}, 400, "INVALID_INPUT"),
        ("migrate_project", {"project_id": "none", "body": {"to": "local"}}, 404, "PROJECT_NOT_FOUND"),
        ("create_scope", {"body": {"name": "garden"}}, 409, "CONFLICT"),
        ("create_scope", {"body": {"name": "x", "parent": "none"}}, 404, "SCOPE_NOT_FOUND"),
        ("show_scope", {"name": "none"}, 404, "SCOPE_NOT_FOUND"),
        ("delete_scope", {"name": "Global"}, 403, "REFUSED"),
        ("delete_scope", {"name": "garden", "query": {"export": "/tmp/x"}}, 400, "INVALID_INPUT"),
        ("rename_scope", {"name": "Global", "body": {"new_name": "x"}}, 403, "REFUSED"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_told(api: Api, name: str, given: Json, status: int, code: str) -> None:
    path = {word: value for word, value in given.items() if word not in ("body", "query")}
    assert api.refused(name, given.get("body"), query=given.get("query"), **path) == (status, code)


def test_a_name_is_found_however_its_letters_are_written(api: Api) -> None:
    made = api.get("create_project", {"name": "Cafe\u0301"})
    for written in ("Caf\u00e9", "Cafe\u0301"):
        assert api.get("show_project", project_id=written)["id"] == made["id"]
    assert not [one for one in api.get("list_projects")["projects"] if "redacted" in one["name"]]


def test_a_store_that_is_not_configured_is_told(api: Api) -> None:
    if _home_of(api) != "postgres":
        far = {"name": "far", "storage_mode": "postgres"}
        assert api.refused("create_project", far) == (503, "SETTINGS_ERROR")
    assert api.refused("show_project", project_id="far") == (404, "PROJECT_NOT_FOUND")


def test_projects_are_made_changed_and_deleted_by_the_owner_alone(
    api: Api, keys: dict[str, Any], tmp_path: Path
) -> None:
    api.get("create_project", {"name": "owned", "path": str(tmp_path)})
    before = sorted((api.home / "export").iterdir())
    owners = [row for row in resources.PROJECT_RESOURCES if operation(row.operation).owner_only]
    assert {row.name for row in owners} == {
        "create_project",
        "change_project",
        "delete_project",
        "migrate_project",
        "delete_scope",
        "rename_scope",
        "retire_scope",
        "revive_scope",
    }
    bodies = {
        "create_project": {"name": "mine", "path": str(tmp_path / "other")},
        "change_project": {"path": "/etc"},
        "migrate_project": {"to": "local"},
        "rename_scope": {"new_name": "mine"},
    }
    for key in KEYS:
        for name in ("owned", "garden"):
            for row in owners:
                query = {"confirm": name} if row.name == "delete_project" else None
                path = dict.fromkeys(row.in_path(), name)
                told = api.by(keys[key]).refused(row.name, bodies.get(row.name), query=query, **path)
                assert told == (403, "REFUSED"), (key, row.name)
    assert sorted((api.home / "export").iterdir()) == before
    assert api.get("show_project", project_id="owned")["path"] == str(tmp_path)


def test_a_key_sees_its_own_and_no_folder(api: Api, keys: dict[str, Any], tmp_path: Path) -> None:
    api.get("create_project", {"name": "private", "path": str(tmp_path)})
    api.stored("The private plan.", scope="private")
    guest = api.by(keys["guest"])
    assert [one["id"] for one in guest.get("list_projects")["projects"]] == []
    assert [one["name"] for one in guest.get("list_scopes")["scopes"]] == ["garden"]
    for name in ("private", "Global", "none"):
        assert guest.refused("show_project", project_id=name) == (404, "PROJECT_NOT_FOUND")
        assert guest.refused("show_scope", name=name) == (404, "SCOPE_NOT_FOUND")
        assert guest.refused("change_scope", {"description": "mine"}, name=name)[0] == 404
    assert guest.refused("create_scope", {"name": "more"}) == (403, "REFUSED")
    for key in KEYS:
        for name, path in (("list_projects", {}), ("show_project", {"project_id": "private"})):
            assert str(tmp_path) not in api.by(keys[key]).ask(name, **path).text
    assert str(tmp_path) in api.ask("list_projects").text


@pytest.fixture(scope="module")
def everywhere(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, mongo_server: MongoServer
) -> Iterator[Api]:
    """A server whose projects may live in each of the stores."""
    url = postgres_server.create_database("rest_projects", template="with_vectors")
    settings = {
        "MINDHOLD_STORE_MODE": "local",
        "MINDHOLD_POSTGRES_URL": url,
        "MINDHOLD_MONGODB_MODE": "external",
        "MINDHOLD_MONGODB_URI": mongo_server.url,
        "MINDHOLD_MONGODB_DATABASE": "rest_projects",
    }
    with served(tmp_path_factory.mktemp("everywhere") / "home", **settings) as api:
        yield api
    postgres_server.drop_database("rest_projects")
    mongo_server.command({"dropDatabase": 1}, database="rest_projects")


@pytest.mark.parametrize("mode", ["local", "postgres", "mongodb"])
def test_a_project_in_each_store(everywhere: Api, mode: str) -> None:
    api, project = everywhere, f"in {mode}"
    made = api.get("create_project", {"name": project, "storage_mode": mode, "description": "Tea"})
    assert (made["storage_mode"], made["memories"]) == (mode, 0)
    said = {"message_type": "user", "content": "We sell green tea."}
    saved = api.get("save_message", said, project_id=project)
    assert saved["storage_backend"] == mode
    kept = api.stored("Tea is kept in the cellar.", scope=project)
    api.get("amend", {"content": "Tea is kept in the attic."}, id=kept)
    found = api.get("recall", {"query": "where is tea kept?", "scope": project})
    assert kept in [hit["id"] for hit in found["hits"]]
    changed = api.get("change_project", {"description": "Tea and more"}, project_id=project)
    assert (changed["description"], changed["storage_mode"], changed["memories"]) == ("Tea and more", mode, 2)
    gone = api.get("delete_project", query={"confirm": project}, project_id=project)
    assert (gone["storage_mode"], gone["memories"]) == (mode, 2)
    assert not any(gone["remaining"].values())
    export = Path(gone["export"]).read_text(encoding="utf-8")
    assert "green tea" in export
    assert "cellar" in export, "the version before as well"
    assert api.refused("show", id=kept) == (404, "MEMORY_NOT_FOUND")
    assert project not in [one["id"] for one in api.get("list_projects")["projects"]]
    again = api.get("create_project", {"name": project, "storage_mode": mode})
    assert (again["memories"], again["description"]) == (0, ""), "nothing of it was left there"
    api.get("delete_project", query={"confirm": project}, project_id=project)


def test_a_migrated_project_is_deleted_with_the_copy_it_left(everywhere: Api) -> None:
    api = everywhere
    api.get("create_project", {"name": "moved", "storage_mode": "postgres"})
    api.stored("Parcels leave on Mondays.", scope="moved")
    done = api.get("migrate_project", {"to": "mongodb"}, project_id="moved")
    assert (done["moved"], done["kept_in"]) == (True, ["postgres"])
    gone = api.get("delete_project", query={"confirm": "moved"}, project_id="moved")
    assert (gone["memories"], gone["storage_mode"]) == (1, "mongodb")
    for mode in ("postgres", "mongodb"):
        again = api.get("create_project", {"name": "moved", "storage_mode": mode})
        assert (again["memories"], again["copies"]) == (0, [])
        api.get("delete_project", query={"confirm": "moved"}, project_id="moved")
