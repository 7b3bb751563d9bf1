"""Install this bundle, without network: python install.py --venv DIR, or --target DIR."""

import sys

OLDEST = (3, 8)


def start():  # type: () -> int
    """The exit status. Older Pythons, 2.7 too, read this file as far as the sentence below."""
    if tuple(sys.version_info[:2]) < OLDEST:
        sys.stderr.write("install.py: Python 3.8 or newer is needed, this is ")
        sys.stderr.write(sys.version.split()[0] + ": start it with another one\n")
        return 3
    try:
        return installed()
    except KeyboardInterrupt:  # while it was still reading its own files, or tidying up
        sys.stderr.write("install.py: stopped; nothing was installed\n")
        return 130


def installed():  # type: () -> int
    sys.dont_write_bytecode = True  # the bundle stays as it is
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
    from hostwheel.user.carried.installer import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
