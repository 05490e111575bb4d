"""Signing in to servers with `auth.type = "oauth"`: their access tokens, kept and refreshed.

Loaded for such servers only. Its own flow rather than the SDK's `OAuthClientProvider`, which drops the tokens
whenever a refresh fails, guesses endpoints, keeps no metadata over a restart and locks within one process.

- `bearer_auth`: puts an access token on each request. Start reading here.
- `token_supply`: the access token of a server, as its requests get it
- `refresh`: the refresh of a sign-in, by one process for all that use it
- `kept_sign_in`: the sign-in of a server, as its connections read and keep it
- `login`: the login of a person, by one of the flows
- `person`: the person who signs in, as a login reaches them
- `authorization_code`: a login in a browser
- `loopback_listener`, `pasted_redirect`: what receives the redirect at its end
- `authorization_response`: the answer in that redirect, checked
- `device_flow`: a login with a code, in a browser on any device
- `registration`: the client that a login is made by
- `client_credentials`: tokens for machines, by a secret or a private key
- `sign_out`: the end of a sign-in
- `revocation`: the revocation of its tokens
- `token_endpoint`: requests to a token endpoint
- `client_authentication`: how a client proves to a token endpoint who it is
- `client_assertion`: the same by a private key
- `metadata`: which authorization server a server uses, and what it offers
- `authorization_requests`: checked HTTP requests that carry nothing of the server's
- `daemon_thread`: what blocks, such as the keyring, without keeping the program from ending
- `sign_in_state`, `sign_in_file`, `sign_in_store`, `token_keyring`: what is kept of a sign-in, and where
"""
