"""Runs oidc-provider-mock with public clients, whose PKCE its own library verifies.

The program itself takes confidential clients alone and ignores PKCE.
"""

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc7636 import CodeChallenge
from oidc_provider_mock import _app
from oidc_provider_mock.__main__ import run

# By code.
challenges = {}


class Challenge(CodeChallenge):
    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]

    def get_authorization_code_challenge(self, authorization_code):
        return challenges.get(authorization_code.code)

    def get_authorization_code_challenge_method(self, authorization_code):
        return "S256"


class PublicGrant(_app.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    def save_authorization_code(self, code, request):
        challenges[code] = request.payload.data["code_challenge"]
        super().save_authorization_code(code, request)


def register_grant(server, grant, extensions=None):
    if grant is _app.AuthorizationCodeGrant:
        grant, extensions = PublicGrant, [*extensions, Challenge(required=True)]
    original(server, grant, extensions)


original = AuthorizationServer.register_grant
AuthorizationServer.register_grant = register_grant
run()
