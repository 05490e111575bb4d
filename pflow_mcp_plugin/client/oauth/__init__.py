"""Signing in to servers with `auth.type = "oauth"`: their access tokens, kept and refreshed.

Loaded for such servers only. Its own flow rather than the SDK's `OAuthClientProvider`, which drops the tokens
whenever a refresh fails, guesses endpoints, keeps no metadata over a restart and locks within one process.

- `bearer_auth`: puts an access token on each request, refreshed before it expires. Start reading here.
- `refresh`: the refresh of a sign-in, by one process for all that use it; the tokens of machines
- `login`: the login of a person: which flow, by which client
- `authorization_code`: a login in a browser, and the redirect at its end
- `device_flow`: a login with a code, in a browser on any device
- `sign_out`: the end of a sign-in, and the revocation of its tokens
- `token_endpoint`: requests to a token endpoint, and how a client proves there who it is
- `metadata`: which authorization server a server uses, and what it offers
- `authorization_requests`: checked HTTP requests that carry nothing of the server's
- `sign_in_state`, `sign_in_store`: what is kept of a sign-in, and where
"""
