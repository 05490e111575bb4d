"""The code that guards each row of the fault matrix, and the change that takes it out.

`unguarded.py` takes out one after the other and sees whether the row's tests notice. Places and
changes are named as `mutations.py` says; a test checks that each fits exactly once.
"""

from typing import NamedTuple

from mutations import (
    Mutation,
    always,
    bare,
    call_other,
    constant,
    drop,
    first_argument,
    gives,
    instead,
    keyword,
    never,
    outside,
    uncaught,
    without_key,
)


class Guard(NamedTuple):
    """A piece of code that keeps a fault from doing harm.

    Attributes:
        row: The fault.
        place: The end of the dotted name of the function, class or constant that it is in.
        mutation: The change that takes it out.
        among: Which of the row's tests to run, as an expression for `pytest -k`; empty for all.
    """

    row: int
    place: str
    mutation: Mutation
    among: str = ""


ANY_URL = "return _digest(self.client)"
_COPIED = "self._begun = BytesIO(self._begun.getvalue() + rest); self._begun.seek(0, 2)"
_LOOSE_CONTEXT = """
context = ssl.create_default_context(cafile=file, capath=folder)
context.check_hostname = False
return context
"""
_BLIND_CONTEXT = f"""
{_LOOSE_CONTEXT.strip().removesuffix("return context")}
context.verify_mode = ssl.CERT_NONE
return context
"""
_ACCEPTED = 'return ElicitResult(action="accept", content={})'
_EMPTIED = "target.write_bytes(b''); temporary.replace(target)"
_SERVERS_ONLY = "new = {server_schema.SERVERS: copy.deepcopy(old.get(server_schema.SERVERS, {}))}"

GUARDS = (
    Guard(1, "find_program", gives("closest_program", None)),
    Guard(2, "find_program", never("not_executable")),
    Guard(2, "find_program", never("access")),
    Guard(3, "from_exit", never("calling")),
    Guard(4, "_note_stray", never("strays")),
    Guard(4, "_on_unreadable", drop("invalid_json")),
    Guard(5, "MessageStream.end", drop("unfinished")),
    Guard(6, "_on_unreadable", never("encode")),
    Guard(7, "LineBuffer._check", never("_cap")),
    Guard(7, "LineBuffer.feed", instead("_begun", "write", code=_COPIED), "never_copied"),
    Guard(8, "Connection._own", first_argument("timeout", None)),
    Guard(9, "MessageStream._on_json", drop("unmatched", "reply_to")),
    Guard(10, "MessageStream._on_json", drop("discard")),
    Guard(11, "Session.shake_hands", never("HANDSHAKE_PROTOCOL_VERSIONS")),
    Guard(12, "PipeWriter._until_taken", never("_taken", "end")),
    Guard(13, "ProcessEnd.bring_about", drop("SIGKILL")),
    Guard(13, "system_calls.signal_group", call_other("killpg", "kill")),
    Guard(14, "system_calls.signal_group", call_other("killpg", "kill")),
    Guard(15, "Pool._end_processes", drop("end_marked")),
    Guard(16, "TailReader.data_received", drop("_TAIL")),
    Guard(17, "from_exit", instead("code", "returncode", code="return None")),
    Guard(18, "Bounds", first_argument("timeout_at", None)),
    Guard(18, "Connection._under_way", drop("_stop")),
    Guard(18, "Pool._request", drop("future", "cancel"), "ctrl"),
    Guard(19, "read", never("is_error")),
    Guard(20, "from_error", drop("_from_rpc")),
    Guard(21, "ToolPages.collect", never("seen")),
    Guard(21, "_MAX_PAGES", constant(1000)),
    Guard(22, "ToolPages.tools", never("count")),
    Guard(23, "Dispatcher.send_raw_request", bare("_screen")),
    Guard(24, "_compiled", never("left", "deadline")),
    Guard(25, "_compiled", bare("extend")),
    Guard(26, "_is_pattern", always("is_linear")),
    Guard(27, "Runtime.warn_of_changed_lists", gives("compare", ())),
    Guard(27, "Connection._note_changed_list", drop("list_changed")),
    Guard(28, "_from_rpc", never("says_tool_is_gone")),
    Guard(29, "_decline", drop("_warn")),
    Guard(29, "Session.dispatch_input_request", instead("ElicitResult", code=_ACCEPTED)),
    Guard(30, "main", bare("end_groups")),
    Guard(30, "main", drop("end_marked")),
    Guard(31, "RestartLimit.start", never("_MOST_STARTS")),
    Guard(32, "Pool", always("alive", "retryable")),
    Guard(32, "from_exit", keyword("retryable", False)),
    Guard(33, "_connected", always("unheard")),
    Guard(33, "_open", drop("evolve")),
    Guard(33, "Catalog.current", never("config_fingerprint")),
    Guard(34, "_discover_or_initialize", first_argument("timeout", None)),
    Guard(34, "Catalog.current", never("config_fingerprint")),
    Guard(35, "_unreachable", never("ConnectionRefusedError")),
    Guard(36, "_unreachable", never("gaierror")),
    Guard(37, "tls_context", instead("create_default_context", code=_BLIND_CONTEXT)),
    Guard(37, "_CERTIFICATE_FAULTS", without_key(18)),
    Guard(38, "tls_context", instead("create_default_context", code=_BLIND_CONTEXT)),
    Guard(38, "_CERTIFICATE_FAULTS", without_key(10)),
    Guard(39, "tls_context", instead("create_default_context", code=_LOOSE_CONTEXT)),
    Guard(40, "_text", never("UNAUTHORIZED")),
    Guard(40, "strict.value", drop("_complain"), "unset"),
    Guard(41, "_text", always("insufficient_scope", "scope")),
    Guard(42, "_text", never("NOT_FOUND")),
    Guard(43, "refusal", keyword("session_lost", False)),
    Guard(43, "Pool", never("safe_to_repeat")),
    Guard(44, "with_retry_after", always("status", "seconds")),
    Guard(44, "with_retry_after", never("get_running_loop")),
    Guard(45, "Redactor.text", never("pattern")),
    Guard(46, "from_status", never("BAD_REQUEST")),
    Guard(47, "StreamableHttp._resume", drop("cut")),
    Guard(48, "StreamableHttp._resume", always("left")),
    Guard(49, "_CutStream.note", bare("granted_pause")),
    Guard(50, "read_events", keyword("max_event_size", None)),
    Guard(51, "read_whole", never("limit")),
    Guard(52, "HttpRequests.answer", uncaught("NETWORK_ERRORS")),
    Guard(53, "StreamableHttp._request", first_argument("timeout", None)),
    Guard(54, "_wrong_kind", never("text/html")),
    Guard(55, "StreamableHttp._take", drop("unmatched")),
    Guard(56, "BearerAuth._renewed", outside("locked")),
    Guard(56, "BearerAuth._renewed", never("is_fresh")),
    Guard(57, "ServerStore._change", outside("locked"), "config"),
    Guard(58, "write_atomic", drop("sweep"), "config"),
    Guard(58, "_replacing", instead("put_in_place", code=_EMPTIED), "config"),
    Guard(59, "_replacing", drop("unlink"), "config"),
    Guard(60, "JsonStore._load_or_begin", never("rebuildable"), "settings"),
    Guard(60, "set_aside", instead("replace", code="target.unlink()"), "registry"),
    Guard(61, "refuse_newer", never("known"), "settings"),
    Guard(62, "ServerStore._change", instead("deepcopy", code=_SERVERS_ONLY), "config"),
    Guard(63, "_replacing", drop("chmod"), "config"),
    Guard(63, "make_folder", drop("chmod"), "config"),
    Guard(63, "StoredSettings.check", never("is_open_to_others"), "warned"),
    Guard(64, "_target", never("is_symlink"), "config"),
    Guard(65, "BearerAuth.authorize", never("is_valid")),
    Guard(66, "KeptSignIn.end", always("refused", "refresh")),
    Guard(67, "authorization_requests._judged", never("INTERNAL_SERVER_ERROR")),
    Guard(68, "AuthorizationRequests._sent", first_argument("timeout", None)),
    Guard(69, "SignInStore.read", never("issuer")),
    Guard(69, "metadata._chosen_issuer", never("fitting")),
    Guard(70, "SignInKey.digest", instead("_digest", code=ANY_URL)),
    Guard(71, "_Attempt._by_code", never("S256")),
    Guard(72, "metadata._checked", never("same_issuer")),
    Guard(73, "metadata.require_url", never("fits", "secure")),
    Guard(74, "_Attempt.made", never("is_unknown", "stored", "is_ours"), "again_once"),
    Guard(75, "missing_scopes", never("scope", "granted"), "granted"),
    Guard(75, "_text", always("insufficient_scope", "scope"), "tool_needs"),
    Guard(76, "AuthorizationRequests.get", never("stays"), "oauth"),
    Guard(76, "AuthorizationRequests.post", never("is_redirect"), "token"),
    Guard(77, "KeptSignIn.read", never("access")),
    Guard(78, "sign_in_store._parsed", uncaught("ValueError")),
    Guard(79, "refuse_newer", never("known")),
    Guard(79, "SignInStore.write", drop("_content")),
    Guard(80, "BearerAuth._by_refresh_token", outside("room"), "spent"),
    Guard(80, "BearerAuth.aclose", drop("store_late"), "later"),
)
