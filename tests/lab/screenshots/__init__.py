"""Pictures of the page for the documentation."""
