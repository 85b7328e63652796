//! Fixtures that several modules' unit tests share.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_client::Client;
use api_types::NodeId;
use api_types::credential::{CredentialType, CredentialValue, Login};
use api_types::protocol::Work;
use peers::kubo::KuboServer;
use peers::s3::{self, S3Server};
use uuid::Uuid;

use crate::data::handover::Handover;
use crate::data::secrets::Secrets;
use crate::host::disk::Disk;
use crate::host::settings::{AwsVariables, IpfsSettings, S3Settings, Settings};

pub(crate) use api_types::testing::{execution_id, plain_work};

/// The settings of a node that reaches a peer.
pub(crate) trait OfKubo {
    fn settings(&self) -> Settings;
}

impl OfKubo for KuboServer {
    fn settings(&self) -> Settings {
        Settings { ipfs: IpfsSettings { api: self.api() }, ..Settings::default() }
    }
}

/// The same, with credentials; jobs name the endpoint, which the operator lists.
pub(crate) trait OfS3 {
    fn settings(&self, secret: &str) -> Settings;
    fn good_settings(&self) -> Settings;
}

impl OfS3 for S3Server {
    fn settings(&self, secret: &str) -> Settings {
        let variables = [("AWS_ACCESS_KEY_ID", s3::KEY_ID), ("AWS_SECRET_ACCESS_KEY", secret)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings {
            allow_private_addresses: true,
            aws: AwsVariables(BTreeMap::from(variables)),
            s3: S3Settings { endpoints: vec![self.endpoint()], ..S3Settings::default() },
            ..Settings::default()
        }
    }

    fn good_settings(&self) -> Settings {
        self.settings(s3::SECRET)
    }
}

/// Credentials with the name `own`, for these hosts.
pub(crate) fn credential(
    credential_type: CredentialType,
    hosts: &[&str],
    login: Login,
) -> CredentialValue {
    CredentialValue {
        name: "own".to_owned(),
        credential_type,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        buckets: Vec::new(),
        version: 1,
        login,
    }
}

/// A disk of which everything may be had.
pub(crate) fn any_disk() -> Disk {
    Disk::new(std::path::Path::new("/"), 0)
}

/// Of a node that has no place for secrets.
pub(crate) fn without_secrets() -> Secrets {
    // Fails harmlessly if another test of this process has installed it.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::new("http://127.0.0.1:1").expect("a URL");
    Secrets::new(Handover::new(client, NodeId::from_uuid(Uuid::from_u128(1))), None)
}

pub(crate) fn work() -> Arc<Work> {
    Arc::new(plain_work())
}
