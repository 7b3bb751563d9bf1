"""The subcommands of the user's side: name → what it does, an example, what adds its arguments."""

import argparse
from collections.abc import Callable, Mapping

from hostwheel.user import (
    bundle_command,
    capture_command,
    doctor_command,
    pick_command,
    verify_command,
)

COMMANDS: Mapping[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "capture": (
        capture_command.WHAT,
        capture_command.EXAMPLE,
        capture_command.add_capture_arguments,
    ),
    "pick": (pick_command.WHAT, pick_command.EXAMPLE, pick_command.add_pick_arguments),
    "doctor": (doctor_command.WHAT, doctor_command.EXAMPLE, doctor_command.add_doctor_arguments),
    "bundle": (bundle_command.WHAT, bundle_command.EXAMPLE, bundle_command.add_bundle_arguments),
    "verify": (verify_command.WHAT, verify_command.EXAMPLE, verify_command.add_verify_arguments),
}
