"""`python -m mixling`, and `torchrun -m mixling`, are the command `mixling`."""

import signal


def main() -> None:
    """Run the command; Ctrl-C while its modules are imported ends it at once, as there is nothing to put in order."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mixling.cli.main import run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
