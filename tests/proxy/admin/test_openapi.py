"""The document says what the table says, in the words of OpenAPI 3.1."""

from proxy.admin.openapi import document
from proxy.admin.routes import Order, Route, Told
from proxy.auth import Role


async def deed(_: Order) -> Told:
    return {}


ROUTES = [
    Route("GET", "/admin/x", Role.READ, "Look", deed, query={"limit": {"type": "integer", "description": "How many."}}),
    Route("POST", "/admin/x", Role.OPERATE, "Do", deed, body={"type": "object"}),
    Route("DELETE", "/admin/workers/{name+}", Role.OPERATE, "Remove", deed),
    Route("DELETE", "/admin/entries/{entry}", Role.CURATE, "Delete", deed),
    Route("POST", "/admin/login", None, "Log in", deed, body={"type": "object"}, optional=True),
]


def test_every_route_stands_there_once_with_role_and_schemas() -> None:
    told = document(ROUTES, "1.2")
    assert (told["openapi"], told["info"]["version"]) == ("3.1.0", "1.2")
    paths = told["paths"]
    assert {(method, path) for path, each in paths.items() for method in each} == {
        ("get", "/admin/x"), ("post", "/admin/x"), ("delete", "/admin/workers/{name}"),
        ("delete", "/admin/entries/{entry}"), ("post", "/admin/login"),
    }  # fmt: skip
    assert paths["/admin/x"]["get"]["parameters"][0]["name"] == "limit"
    assert paths["/admin/x"]["post"]["requestBody"]["required"] is True
    assert paths["/admin/x"]["post"]["x-role"] == "operate"
    (name,) = paths["/admin/workers/{name}"]["delete"]["parameters"]
    assert (name["in"], name["required"]) == ("path", True)
    (entry,) = paths["/admin/entries/{entry}"]["delete"]["parameters"]
    assert entry["schema"]["pattern"].startswith("^[0-7]")
    login = paths["/admin/login"]["post"]
    assert (login["security"], login["requestBody"]["required"]) == ([], False)
    named = [operation["operationId"] for each in paths.values() for operation in each.values()]
    assert len(set(named)) == len(named)
    assert all("$ref" in operation["responses"]["401"] for each in paths.values() for operation in each.values())
