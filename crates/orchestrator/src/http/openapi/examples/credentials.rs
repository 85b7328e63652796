//! Examples of credentials.

use api_types::credential::{
    Credential, CredentialType, CredentialValue, CredentialsAnswer, CredentialsRequest,
    DescribeCredential, ListCredentials, Login, PutCredential,
};

use super::records::{EXECUTION, MOMENT};

const NAME: &str = "ghcr";

fn hosts() -> Vec<String> {
    vec!["ghcr.io".to_owned()]
}

fn login() -> Login {
    Login {
        username: "ci".to_owned(),
        password: "correct horse battery staple".to_owned(),
        ..Login::default()
    }
}

fn credential() -> Credential {
    Credential {
        name: NAME.to_owned(),
        namespace: "ci".to_owned(),
        credential_type: CredentialType::Registry,
        hosts: hosts(),
        buckets: Vec::new(),
        version: 2,
        create_time: MOMENT.rfc3339_seconds(),
        modify_time: MOMENT.rfc3339_seconds(),
    }
}

pub(in crate::http) fn list_credentials() -> ListCredentials {
    ListCredentials { credentials: vec![credential()] }
}

pub(in crate::http) fn describe_credential() -> DescribeCredential {
    DescribeCredential { credential: credential() }
}

pub(in crate::http) fn put_credential() -> PutCredential {
    PutCredential {
        credential_type: CredentialType::Registry.to_string(),
        hosts: hosts(),
        buckets: Vec::new(),
        login: login(),
    }
}

pub(in crate::http) fn credentials_request() -> CredentialsRequest {
    CredentialsRequest { execution_id: EXECUTION, names: Vec::new() }
}

pub(in crate::http) fn credentials_answer() -> CredentialsAnswer {
    let value = CredentialValue {
        name: NAME.to_owned(),
        credential_type: CredentialType::Registry,
        hosts: hosts(),
        buckets: Vec::new(),
        version: 2,
        login: login(),
    };
    CredentialsAnswer { credentials: vec![value] }
}
