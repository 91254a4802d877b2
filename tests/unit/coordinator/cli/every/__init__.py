"""What holds of every command."""
