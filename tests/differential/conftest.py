"""The JVM that Java's side of a comparison runs on."""

import pytest

from tests.conftest import missing_tool
from tests.interop.support.jvm import Java, MissingToolError, java


@pytest.fixture(scope="module")
def jvm(request: pytest.FixtureRequest) -> Java:
    try:
        return java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: nothing to compare with")
        raise
