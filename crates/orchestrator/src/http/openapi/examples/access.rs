//! Examples of tokens, namespaces and signing in.

use api_types::access::{
    CreateToken, CreatedToken, DescribeNamespace, ExchangeIdToken, Identity, IssuerOfIdTokens,
    ListNamespaces, ListTokens, Namespace, Permissions, PutNamespace, RevokedToken, RevokedTokens,
    Role, SignIn, SignInMethods, Token,
};

use api_types::audit::{AuditChain, AuditOutcome, AuditRecord, ListAudit};
use api_types::quota::{NamespaceUsage, Quota};

use super::records::MOMENT;

const TOKEN_ID: &str = "5a1b0c9d8e7f6a5b";
const SECRET: &str = "jt1_5a1b0c9d8e7f6a5b_4xKq0yQJ8s6n1vB3mZr7tLw2cPdF5hGjAeUiOoXyNTk";

fn token() -> Token {
    Token {
        id: TOKEN_ID.to_owned(),
        name: "build server".to_owned(),
        role: Role::Submitter,
        namespaces: vec!["ci".to_owned()],
        created_by: "admin".to_owned(),
        subject: String::new(),
        create_time: MOMENT.rfc3339_seconds(),
        expire_time: String::new(),
        last_use_time: MOMENT.rfc3339_seconds(),
    }
}

fn permissions() -> Permissions {
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    Permissions {
        engines: list(&["docker", "wasm"]),
        networks: list(&["None", "HTTP"]),
        registries: list(&["docker.io"]),
        ..Permissions::default()
    }
}

fn quota() -> Quota {
    Quota {
        cpu: Some("8".to_owned()),
        memory: Some("32GB".to_owned()),
        queued_executions: Some(1000),
        ..Quota::default()
    }
}

fn namespace() -> Namespace {
    Namespace {
        name: "ci".to_owned(),
        description: "builds and tests".to_owned(),
        permissions: permissions(),
        nodes: "pool=ci".to_owned(),
        max_priority: 60,
        quota: quota(),
        usage: NamespaceUsage {
            cpu: "6.5".to_owned(),
            memory: 12_000_000_000,
            executions: 13,
            share: 0.203_125,
            ..NamespaceUsage::default()
        },
        weight: 3,
        create_time: MOMENT.rfc3339_seconds(),
        modify_time: MOMENT.rfc3339_seconds(),
    }
}

pub(in crate::http) fn create_token() -> CreateToken {
    CreateToken {
        name: "build server".to_owned(),
        role: "submitter".to_owned(),
        namespaces: vec!["ci".to_owned()],
        ttl_seconds: 0,
    }
}

pub(in crate::http) fn created_token() -> CreatedToken {
    CreatedToken { secret: SECRET.to_owned(), token: token() }
}

pub(in crate::http) fn revoked_token() -> RevokedToken {
    RevokedToken { token: token(), descendants: Vec::new(), descendants_revoked: false }
}

pub(in crate::http) fn revoked_tokens() -> RevokedTokens {
    let subject = "https://issuer.example.com ada".to_owned();
    RevokedTokens { tokens: vec![Token { subject, ..token() }] }
}

pub(in crate::http) fn list_tokens() -> ListTokens {
    ListTokens { tokens: vec![token()] }
}

pub(in crate::http) fn put_namespace() -> PutNamespace {
    PutNamespace {
        description: "builds and tests".to_owned(),
        permissions: permissions(),
        nodes: "pool=ci".to_owned(),
        max_priority: Some(60),
        quota: quota(),
        weight: Some(3),
    }
}

pub(in crate::http) fn describe_namespace() -> DescribeNamespace {
    DescribeNamespace { namespace: namespace() }
}

pub(in crate::http) fn list_namespaces() -> ListNamespaces {
    ListNamespaces { namespaces: vec![namespace()] }
}

pub(in crate::http) fn list_audit() -> ListAudit {
    let record = AuditRecord {
        chain: AuditChain::Rest,
        sequence: 1,
        time: MOMENT.rfc3339(),
        user: "build server".to_owned(),
        token_id: TOKEN_ID.to_owned(),
        address: "10.0.0.7".to_owned(),
        operation: "stopJob".to_owned(),
        object: "/api/v1/orchestrator/jobs/j-62df246c".to_owned(),
        request_id: "mine-7".to_owned(),
        outcome: AuditOutcome::Done,
        count: 1,
        previous: String::new(),
        hash: "0".repeat(64),
    };
    ListAudit { records: vec![record], next_token: String::new() }
}

pub(in crate::http) fn sign_in() -> SignIn {
    SignIn { token: SECRET.to_owned() }
}

pub(in crate::http) fn identity() -> Identity {
    Identity {
        name: "build server".to_owned(),
        role: Role::Submitter,
        namespaces: vec!["ci".to_owned()],
        token_id: TOKEN_ID.to_owned(),
        expire_time: MOMENT.rfc3339_seconds(),
    }
}

pub(in crate::http) fn sign_in_methods() -> SignInMethods {
    SignInMethods {
        oidc: Some(IssuerOfIdTokens {
            issuer: "https://keycloak.example.com/realms/main".to_owned(),
            client_id: "jobs".to_owned(),
            scopes: "openid profile email".to_owned(),
            confidential: false,
            ca: String::new(),
        }),
    }
}

pub(in crate::http) fn exchange_id_token() -> ExchangeIdToken {
    ExchangeIdToken { id_token: "eyJhbGciOiJSUzI1NiIs...".to_owned() }
}
