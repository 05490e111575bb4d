"""Checks that a host runs against itself: how it treats good and bad plugins, and runs.

Each check opens the host with plugins of its own and fails with an `AssertionError` that states the
requirement of the contract. With pytest:

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_the_host_keeps_the_contract(check, tmp_path):
        check(conformance.Trial(open_my_host, tmp_path))

The checks of runs pass for a host without a runner, those of the library for one without a library.

- `trial`: the host under test, and the assertions that several checks share
- `plugin_checks`, `run_checks`: the checks, each named after what the contract asks for
- `sample_plugins`: the plugins with which they open the host
"""

from pflow_mcp_plugin.contract.conformance import plugin_checks, run_checks
from pflow_mcp_plugin.contract.conformance.trial import Check, Open, Subject, Trial, checks_in

CHECKS: tuple[Check, ...] = (*checks_in(plugin_checks), *checks_in(run_checks))

__all__ = ["CHECKS", "Check", "Open", "Subject", "Trial"]
