"""Which variables decide what code runs."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.config.display import decides_code

DECIDE = """
    PATH PYTHONPATH PYTHONSTARTUP LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS
    NODE_PATH BASH_ENV ENV PERL5OPT PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH
    NPM_CONFIG_REGISTRY npm_config_registry UV_INDEX_URL UV_DEFAULT_INDEX PIP_INDEX_URL
    GIT_SSH_COMMAND GIT_ASKPASS DOTNET_STARTUP_HOOKS DOCKER_HOST HOME BASH_FUNC_ls%% PROMPT_COMMAND
    PS4 LUA_INIT PHPRC SHELL GCONV_PATH XDG_CONFIG_HOME PEX_PATH
    TSX_TSCONFIG_PATH TS_NODE_PROJECT SSLKEYLOGFILE
"""
DO_NOT = (
    "GITHUB_TOKEN NODE_ENV REGION PORT PYTHONUTF8 PYTHONUNBUFFERED ENVIRONMENT BASE_PATH TZ DOCKER_TAG SCRIPT"
)


@pytest.mark.parametrize("name", DECIDE.split())
def test_variables_that_decide_what_code_runs(name):
    assert decides_code(name)


@pytest.mark.parametrize("name", DO_NOT.split())
def test_other_variables_decide_nothing(name):
    assert not decides_code(name)
