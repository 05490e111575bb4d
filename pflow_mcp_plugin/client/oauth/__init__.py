"""Signing in to servers with `auth.type = "oauth"`: their access tokens, kept and refreshed.

Loaded for such servers only. Its own flow rather than the SDK's `OAuthClientProvider`, which drops the tokens
whenever a refresh fails, guesses endpoints, keeps no metadata over a restart and locks within one process.

- `bearer_auth`: puts an access token on each request, refreshed before it expires, by one process for all
  that use it; the tokens of machines. Start reading here.
- `login`: the login of a person: which flow, by which client; the end of it, and the revocation of its tokens
- `login_flows`: a login in a browser with the redirect at its end, or with a code on any device
- `token_endpoint`: requests to a token endpoint, and how a client proves there who it is
- `metadata`: which authorization server a server uses, and what it offers
- `authorization_requests`: checked HTTP requests that carry nothing of the server's
- `sign_in_state`, `sign_in_store`: what is kept of a sign-in, and where
"""
