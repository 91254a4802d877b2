"""Pure planning: views of a group and a cluster go in, decisions and their explanations come out."""
