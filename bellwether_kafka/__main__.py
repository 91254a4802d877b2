"""`python -m bellwether_kafka` is the command `bellwether`."""

from bellwether_kafka.coordinator.cli import main

if __name__ == "__main__":
    main()
