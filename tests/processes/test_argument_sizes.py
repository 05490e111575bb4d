import subprocess
import sys

import pytest

from pflow_mcp_plugin.processes.system_calls import LONGEST, too_long


def test_the_longest_string_is_named_if_the_system_takes_none_that_long() -> None:
    groups = {"args": {"args[0]": "x" * 9, "args[1]": "é" * LONGEST}, "env": {"env.A": "A=" + "x" * LONGEST}}
    said = f"args[1] is {2 * LONGEST:,} bytes long; the system takes 131,071 for an argument or variable"
    assert too_long(groups) == said


def test_otherwise_the_largest_group_is() -> None:
    groups = {"args": {f"args[{index}]": "x" for index in range(1_000)}, "env": {"env.A": "A=" + "x" * 9_000}}
    said = too_long(groups)
    assert said.startswith("args is 10,000 bytes long; the system takes ")
    assert said.endswith(" for all arguments and variables")


@pytest.mark.skipif(sys.platform != "linux", reason="there they work")
def test_the_system_takes_as_much_as_we_say() -> None:
    subprocess.run(["true", "x" * LONGEST], check=True)
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true", "x" * (LONGEST + 1)], check=True)
