"""`python -m coordinator` is the command `bellwether`."""

from coordinator.cli import main

if __name__ == "__main__":
    main()
