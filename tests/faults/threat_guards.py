"""The code that guards each row of the threat matrix, and the change that takes it out.

As in `guards.py`. Where a threat is held off by something that pflow does not do, such as reading a file
that a result names, the change does it.
"""

from guards import Guard
from mutations import always, drop, gives, instead, never, outside

_EVALUATED = 'self.line.append(f"$(eval echo \\"${{{name}}}\\")")'
_LINKS_READ = """
if kind == "resource_link":
    return open(block["uri"].removeprefix("file://")).read()
return dict(block)
"""
_ACCEPTED = 'return ElicitResult(action="accept", content={})'
_ROOTS_TOLD = 'return ListRootsResult(roots=[{"uri": "file:///home"}])'
_ANY_AUDIENCE = """
claims = jwt.decode(token, public, algorithms=[algorithm], issuer=self.server.issuer, leeway=_LEEWAY,
                    options={**_REQUIRED, "verify_aud": False})
"""
_ANY_RESOURCE = "body = {**form, **fields}"
_OPEN_TO_ALL = "temporary.chmod(0o644)"
_OVERWRITES = "flags = os.O_WRONLY | os.O_CREAT"
_IN_ARGV = """
popen = subprocess.Popen([program, *server.args, *server.env.values()], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=server.cwd, env=environment,
                         bufsize=0, start_new_session=True)
"""
_UNMARKED = 'self._marker = "nothing"'
_UNASKED = "pass"
_AS_NAMED = "head, *below[number] = _findings(synced)"
_AS_FOUND = "shown, is_approved = self.tool, True"
_CLAIMED_NOW = "return _is_harmless(record.found.annotations, hint)"
_ONE_FOR_ALL = 'return "one"'

GUARDS = (
    Guard(1, "ToolUse.problems", instead("_affected", "violation", code="pass")),
    Guard(1, "ToolUse.check", never("what")),
    Guard(1, "_Found.record", instead("shown", "approved", "is_approved", code=_AS_FOUND)),
    Guard(2, "_Found.record", never("is_approved")),
    Guard(3, "tool_use.objections", instead("worse_hints", code="pass")),
    Guard(3, "tool_claims._claims", instead("all", code=_CLAIMED_NOW)),
    Guard(4, "Comparison.unapproved", never("hidden_in_instructions")),
    Guard(5, "Comparison.withheld", instead("hidden", code="return {}")),
    Guard(5, "looks.printable", instead("sub", code="return text")),
    Guard(6, "tool_checks.shadowing", never("other")),
    Guard(7, "tool_checks.claimed_names", never("alike")),
    Guard(7, "tool_checks.claimed_names", never("other")),
    Guard(8, "unexplained_arguments", never("fullmatch")),
    Guard(9, "_Scanner.expand", instead("line", "append", "before", code=_EVALUATED), "shell"),
    Guard(10, "_ContentReader._block", instead("dict", code=_LINKS_READ)),
    Guard(11, "Recorder._shown_member", instead("named", code="whole = True")),
    Guard(12, "Session.dispatch_input_request", instead("ListRootsResult", "roots", code=_ROOTS_TOLD)),
    Guard(13, "Session.dispatch_input_request", instead("ElicitResult", code=_ACCEPTED)),
    Guard(14, "marked_processes", always("isdecimal", "getpid")),
    Guard(15, "child_environment", always("_NAMES")),
    Guard(16, "egress.refusal_of_url", never("insecure", "canonical")),
    Guard(17, "HttpRequests._followed", never("is_same_origin")),
    Guard(17, "http_transports._endpoint", always("is_same_origin")),
    Guard(18, "_pool", never("refusal")),
    Guard(18, "_key_url", never("issuer")),
    Guard(18, "_key_url", never("_is_safe")),
    Guard(18, "metadata._protected_resource", never("is_foreign"), "challenge"),
    Guard(18, "metadata._protected_resource", never("covers"), "resource"),
    Guard(18, "AuthorizationRequests.get", never("stays"), "elsewhere_are"),
    Guard(18, "metadata.require_url", never("fits", "secure"), "schemes"),
    Guard(18, "metadata.require_url", drop("require_allowed"), "schemes"),
    Guard(19, "refusal_of_address", never("contains")),
    Guard(19, "special_kind", never("_NOT_PUBLIC"), "not_public"),
    Guard(20, "start_tls", never("pins")),
    Guard(21, "AccessTokens._decoded", instead("claims", "decode", code=_ANY_AUDIENCE), "audience"),
    Guard(21, "Launch.key", instead("sha256", code=_ONE_FOR_ALL), "token_of_another"),
    Guard(21, "requested_tokens", instead("body", "resource", code=_ANY_RESOURCE), "every_token"),
    Guard(22, "_pool", never("is_loopback")),
    Guard(23, "_replacing", instead("chmod", code=_OPEN_TO_ALL)),
    Guard(24, "write_atomic", always("follow"), "artefact"),
    Guard(24, "_replacing", instead("flags", "O_EXCL", code=_OVERWRITES), "temporary"),
    Guard(25, "spawn", instead("popen", "Popen", code=_IN_ARGV)),
    Guard(26, "TokenGate.__call__", never("verdict", "Refusal")),
    Guard(26, "OriginGate.__call__", always("is_host", "refused", "once")),
    Guard(26, "OriginGate.__call__", instead("is_host", "_HOST", code="is_host = True"), "web_page"),
    Guard(27, "read_token", never("mode")),
    Guard(28, "_Check.check_params", never("is_reserved"), "reserved"),
    Guard(29, "ProjectFile._read", never("digest", "content")),
    Guard(30, "workflow_name.is_name", always("_NAME"), "library"),
    Guard(30, "confined", never("is_relative_to"), "string"),
    Guard(31, "launch_changed", always("trust")),
    Guard(32, "is_too_deep", never("deepest"), "nested"),
    Guard(32, "_has_long_key", never("dots"), "long"),
    Guard(33, "looks.printable", instead("sub", code="return text")),
    Guard(34, "import_servers._apply", never("is_stored"), "warning"),
    Guard(35, "Plugins.configure", outside("plugin_code"), "misbehaves"),
    Guard(36, "Runtime.call", instead("call", "prepare", code=_UNASKED), "in_no_way"),
    Guard(37, "Redactor.text", never("pattern")),
    Guard(60, "read_regular", drop("require_own"), "others_may_write"),
    Guard(60, "read_own", drop("require_own_folder"), "nothing_is_stored"),
    Guard(60, "require_own", instead("place", "descriptor", code="place = str(path)"), "opened"),
    Guard(60, "_require_safe_above", always("S_ISVTX"), "folder_above"),
    Guard(60, "_require_owner", always("st_uid", "geteuid"), "belongs_to"),
    Guard(60, "_require_no_writers", never("S_IWOTH"), "everybody"),
    Guard(60, "_require_no_writers", never("_is_private"), "group"),
    Guard(60, "_require_no_writers", never("user", "geteuid"), "access_list"),
    Guard(60, "_is_known", always("_identity", "was"), "folder_in_which"),
    Guard(61, "_Approval.approve", never("fingerprint"), "took_the_name"),
    Guard(61, "tool_sync.sync", drop("table"), "while_it_is_synced"),
    Guard(61, "approve_launches", drop("_forget_former"), "editor_left"),
    Guard(61, "Servers.forget", instead("Pins", "forget", code="self.pins.forget(server)"), "project"),
    Guard(61, "log_in", drop("_require_unchanged"), "login"),
    Guard(62, "refusal_of_url", never("tls_pins"), "no_byte"),
    Guard(62, "_check_tls", never("table", "key"), "beside_an_http_url"),
    Guard(59, "taken_token", drop("memset"), "environment"),
    Guard(59, "_Handlers.call_tool", drop("add_secrets"), "environment"),
    Guard(63, "bind_line", never("looks", "runs"), "would_run"),
    Guard(63, "bind_line", never("looks", "computes"), "computes"),
    Guard(63, "bind_line", never("looks", "calls_value"), "next_one"),
    Guard(64, "Processes._start", instead("_marker", "_numbers", code=_UNMARKED), "killed"),
    Guard(64, "Processes._start", drop("register"), "killed"),
    Guard(64, "Processes.__exit__", drop("end_marked"), "session"),
    Guard(65, "NodeRegistry.find", never("runs_code", "_no_code"), "every_way"),
    Guard(65, "Entry.runs_code", never("is_code"), "every_way"),
    Guard(56, "ScreeningDispatcher._dispatch_request", drop("acquire"), "many_requests"),
    Guard(56, "MessageQueue.receive", drop("sleep"), "never_empty"),
    Guard(54, "display.is_secret_only", instead("_SECRET_ONLY", code="return True"), "may_be_code"),
    Guard(54, "display.is_secret_only", instead("_SECRET_ONLY", code="return True"), "before_it_runs"),
    Guard(54, "display.arguments", gives("startable", ()), "may_be_code"),
    Guard(
        54,
        "display.masked",
        instead("is_code", "decides_code", code="is_code = False"),
        "variables_and_headers",
    ),
    Guard(55, "launch_identity.same", never("any"), "another_script"),
    Guard(55, "launch_identity.same", never("any"), "code_runs"),
    Guard(55, "Runtime._ready", never("is_complete"), "older_version"),
    Guard(55, "settings_tools._require_changeable", never("starts"), "decides"),
    Guard(55, "settings_tools._require_changeable", never("startswith"), "pflow_itself"),
    Guard(55, "settings_tools._require_changeable", never("stored", "file"), "kept_elsewhere"),
    Guard(57, "expansion.expand", drop("within"), "inside_other_values"),
    Guard(57, "_proxy_secrets", never("endswith"), "proxy"),
    Guard(57, "SecretForms.escaped_parts", never("may_be_escaped"), "escaped"),
    Guard(58, "server_sync._table", instead("one_line", "_findings", code=_AS_NAMED)),
)
