//! The clients of daemons, with what they need to be let in.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use api_client::{Client, Credentials, Options, Trust};

pub(super) fn admin_token(data: &Path) -> std::io::Result<String> {
    token_in(&data.join("admin.token"))
}

pub(super) fn token_in(file: &Path) -> std::io::Result<String> {
    Ok(fs::read_to_string(file)?.trim().to_owned())
}

/// An admin's client, once the orchestrator has written what it needs.
pub(super) fn trusted_client(address: SocketAddr, data: &Path) -> std::io::Result<Client> {
    let ca = fs::read_to_string(data.join("ca.crt"))?;
    let credentials = Credentials::Bearer(admin_token(data)?);
    let (base_url, trust) = (format!("https://{address}"), Trust::Authority(ca));
    let options = Options { base_url, trust, credentials, ..Options::default() };
    Client::with(options).map_err(std::io::Error::other)
}

pub(super) fn client_of(address: SocketAddr, token: Option<String>) -> Client {
    let credentials = token.map_or(Credentials::None, Credentials::Bearer);
    let (base_url, trust) = (format!("http://{address}"), Trust::default());
    Client::with(Options { base_url, trust, credentials, ..Options::default() })
        .expect("an address makes a base URL")
}
