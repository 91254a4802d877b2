"""A membership asks for what it asked for when the stories were last looked at."""

import json
from typing import Any

import pytest

from tests.vectors import membership_stories

STORIES = [json.loads(line) for line in membership_stories.FILE.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("story", STORIES, ids=[str(story["seed"]) for story in STORIES])
def test_a_story_goes_on_as_recorded(story: dict[str, Any]) -> None:
    for number, (now, then) in enumerate(
        zip(membership_stories.Story(story["seed"]).told(), story["steps"], strict=True)
    ):
        assert (number, now) == (number, then)
