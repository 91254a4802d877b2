"""Programs that measure Bellwether; what they print is for people and for documents."""
