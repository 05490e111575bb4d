"""The variables that decide what code a program runs, whatever its command line says.

Interpreters, package runners and the dynamic linker read them: where modules are found, what is loaded
first, from which registry a package comes.
"""

from __future__ import annotations

import re

_DECIDE_CODE = re.compile(
    r"PATH|PATHEXT|COMSPEC|HOME|USERPROFILE|APPDATA|XDG_(?:CONFIG|DATA)_(?:HOME|DIRS)|SHELL|EDITOR|VISUAL|PAGER"
    r"|BROWSER|(?:SSH|GIT|SUDO)_ASKPASS|(?:LD|DYLD)_.*|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|OPENSSL_.*"
    r"|BASH_(?:ENV|FUNC_.*)|BASHOPTS|SHELLOPTS|ENV|ZDOTDIR|IFS|CDPATH|PS4|PROMPT_COMMAND"
    r"|PYTHON(?!UTF8|IOENCODING|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|WARNDEFAULTENCODING).*|VIRTUAL_ENV|CONDA_.*"
    r"|(?:UV|PIP|PIPX|POETRY)_.*|(?:NODE|NPM|YARN|PNPM|BUN|DENO|COREPACK)_(?!ENV$).*|BERRY_.*"
    r"|PERL.*|RUBY(?:LIB|OPT)|GEM_.*|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*|R_(?:PROFILE|ENVIRON|LIBS).*"
    r"|JAVA_.*|_JAVA_OPTIONS|JDK_.*|CLASSPATH|MAVEN_.*|GRADLE_.*|(?:DOTNET|CORECLR|COMPLUS|NUGET)_.*"
    r"|GO(?:FLAGS|PATH|PROXY|ROOT|TOOLCHAIN)|CARGO_.*|RUSTC_.*|JULIA_.*|ERL_.*|ELIXIR_.*|GUILE_.*|TCL.*"
    r"|(?:DOCKER|CONTAINER|PODMAN|KUBE)_?(?:HOST|CONFIG|CONTEXT|CONTENT_TRUST.*)|CONTAINERS_.*|NIX_.*"
    r"|GIT_(?:SSH.*|EXEC_PATH|CONFIG.*|TEMPLATE_DIR|EXTERNAL_DIFF|PROXY_COMMAND|EDITOR|PAGER|DIR)",
    re.IGNORECASE,  # npm reads its variables in either case, and Windows all of them
)


def decides_code(name: str) -> bool:
    """Return whether a variable of this name decides what code a program runs."""
    return _DECIDE_CODE.fullmatch(name) is not None
