"""`python -m pipeline`: the jobs, the backtest and the report, on this machine or under spark-submit."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
