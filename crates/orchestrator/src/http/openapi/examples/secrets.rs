//! Examples of secrets.

use api_types::secret::{
    DescribeSecret, ListSecrets, PutSecret, Secret, SecretValue, SecretsAnswer, SecretsRequest,
};

use super::records::{EXECUTION, MOMENT};

const NAME: &str = "db";

fn secret() -> Secret {
    Secret {
        name: NAME.to_owned(),
        namespace: "ci".to_owned(),
        version: 2,
        create_time: MOMENT.rfc3339_seconds(),
        modify_time: MOMENT.rfc3339_seconds(),
    }
}

pub(in crate::http) fn list_secrets() -> ListSecrets {
    ListSecrets { secrets: vec![secret()] }
}

pub(in crate::http) fn describe_secret() -> DescribeSecret {
    DescribeSecret { secret: secret() }
}

pub(in crate::http) fn put_secret() -> PutSecret {
    PutSecret { value: Some("correct horse battery staple".to_owned()), data: None }
}

pub(in crate::http) fn secrets_request() -> SecretsRequest {
    SecretsRequest { execution_id: EXECUTION }
}

pub(in crate::http) fn secrets_answer() -> SecretsAnswer {
    let value = SecretValue::new(NAME.to_owned(), 2, b"correct horse battery staple");
    SecretsAnswer { secrets: vec![value] }
}
