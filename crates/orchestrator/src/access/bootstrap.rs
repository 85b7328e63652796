//! The first token: an admin's, left in a file of the data directory.

use std::io;
use std::path::{Path, PathBuf};

use api_types::access::{ALL_NAMESPACES, Role};
use control_plane::records::{Expected, RecordKind};

use super::credential::Credential;
use super::token::StoredToken;
use crate::clock;
use crate::driver::{CallError, Handle};
use crate::files;
use crate::records::Published;

/// In the data directory.
pub(crate) const FILE: &str = "admin.token";

/// The name of the first token.
const NAME: &str = "admin";

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("store the first token")]
    Store(#[from] CallError),
}

/// Makes the first token if no valid one of an admin is stored. Returns the file that has it.
///
/// The file is written first: a token that is stored and in no file would lock everybody out.
pub(crate) async fn first_token(
    handle: &Handle,
    records: &Published,
    data_dir: &Path,
) -> Result<Option<PathBuf>, BootstrapError> {
    if !records.are_known() {
        tracing::warn!("no first token is made: the state database cannot be read yet");
        return Ok(None);
    }
    let now = clock::now();
    let tokens = records.of_kind(RecordKind::Token);
    let has_admin = tokens
        .iter()
        .filter_map(StoredToken::from_record)
        // Those of an issuer expire, and another may never be issued.
        .filter(|token| token.person().is_none())
        .any(|token| token.role == Role::Admin && !token.is_over(now));
    if has_admin {
        return Ok(None);
    }
    let credential = Credential::mint();
    let path = data_dir.join(FILE);
    let token = StoredToken {
        name: NAME.to_owned(),
        role: Role::Admin,
        namespaces: vec![ALL_NAMESPACES.to_owned()],
        created_by: String::new(),
        create_time: now,
        expire_time: None,
        last_use_time: None,
        subject: None,
        ancestors: Vec::new(),
        person: None,
        hash: credential.hash(),
    };
    let text = format!("{}\n", token.text(&credential));
    files::write(&path, text.as_bytes(), files::SECRET_MODE)
        .map_err(|source| BootstrapError::File { path: path.clone(), source })?;
    handle.change_records(vec![token.write(&credential.id, Expected::Nothing)]).await?;
    Ok(Some(path))
}
