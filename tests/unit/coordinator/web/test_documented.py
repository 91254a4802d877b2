"""What the page's addresses answer agrees with the published schemas."""

import json
from http import HTTPStatus

import pytest

from bellwether_kafka.coordinator.web import Web
from tests.kit.commands import SCHEMAS, undocumented
from tests.unit.coordinator.web.shown import OBSERVED, application

SCHEMA_OF_PATH = {
    "/api/groups": "api-groups",
    "/api/overview": "api-overview",
    "/api/overview/shop": "api-overview-name",
    "/decisions": "api-decisions",
    "/api/groups/g": "api-groups-name",
    "/api/groups/shop": "api-groups-name",
    **{f"/api/groups/{name}": "api-groups-name" for name in OBSERVED},
}


@pytest.fixture(scope="module")
def web() -> Web:
    return application()


def test_every_schema_of_an_address_is_checked() -> None:
    published = {path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("api-*.schema.json")}
    assert published == set(SCHEMA_OF_PATH.values())


@pytest.mark.parametrize("path", SCHEMA_OF_PATH, ids=lambda path: path[:40])
def test_an_answer_has_the_fields_of_its_schema(web: Web, path: str) -> None:
    answer = web.answer("GET", path)
    assert answer.status is HTTPStatus.OK, answer.body
    document = json.loads(answer.body)
    assert document
    assert not undocumented(SCHEMA_OF_PATH[path], document)
