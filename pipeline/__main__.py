"""`python -m bellwether_kafka.pipeline`: the jobs, here or under spark-submit."""

from bellwether_kafka.pipeline.cli import main

if __name__ == "__main__":
    main()
