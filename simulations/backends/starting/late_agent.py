"""What a raylet that is started here runs in place of an agent of Ray's: it becomes that agent when somebody calls it.

A raylet starts two and waits for both: one measures for a dashboard, the other makes the environments of workers that
want one of their own. Hardly a run has any use for them, and each takes half a second of a core to start.
This file runs as a script, and imports the standard library alone.
"""

import os
import select
import socket
import sys
from pathlib import Path

CALLED = "runtime_env_agent_port"
UNSERVED = "metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"
"""The ports of the two, which Ray reads in files of these names, followed by the node's."""

PORT = "--runtime-env-agent-port="
"""The argument that only the agent has which is called."""

NOWHERE = -1
"""The port of what is not served, as Ray has it where it is installed without a dashboard."""

PIPED = "RAY_enable_pipe_based_agent_to_parent_health_check"
"""The environment variable with which a raylet says that the standard input ends with it."""


def main(arguments: list[str]) -> None:
    """Say where the agent is that these words start, and wait for a call or for the end of the raylet."""
    if os.environ.get(PIPED) != "1":
        _become(arguments)
    given = dict(word.removeprefix("--").split("=", 1) for word in arguments if "=" in word)
    folder, node, address = Path(given["session-dir"]), given["node-id"], given["node-ip-address"]
    if not any(word.startswith(PORT) for word in arguments):
        for name in UNSERVED:
            _say(folder, node, name, NOWHERE)
        sys.stdin.read()
        return
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        port = listener.getsockname()[1]
        _say(folder, node, CALLED, port)
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            return
    # This call is refused, and made again until the agent listens.
    _become([f"{PORT}{port}" if word.startswith(PORT) else word for word in arguments])


def _say(folder: Path, node: str, name: str, port: int) -> None:
    """Write a port where Ray waits for it."""
    written = folder / f"{name}_{node}.part"
    written.write_text(str(port))
    written.rename(folder / f"{name}_{node}")


def _become(arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-u", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
