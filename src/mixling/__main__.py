"""`python -m mixling`, and `torchrun -m mixling`, are the command `mixling`."""

from mixling.cli.main import run

if __name__ == "__main__":
    run()
