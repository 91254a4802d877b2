"""A reader who follows a page of the documentation in a terminal."""
