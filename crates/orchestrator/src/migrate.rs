//! Moves the state of a data directory into the database of a shared store, offline.

use std::path::Path;

use control_plane::store::postgres::{self, ImportError};

use crate::settings::{DatabaseError, Settings, StoreKind};

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the settings name no database; set store = \"postgres\" and postgres.url")]
    NotShared,
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Copies the state in this directory into the database of these settings; returns what to tell the
/// operator.
pub fn migrate(settings: &Settings, from: &Path) -> Result<String, MigrateError> {
    match settings.store {
        StoreKind::Postgres => {}
        StoreKind::Sqlite => return Err(MigrateError::NotShared),
    }
    let database = settings.postgres.database()?;
    let tables = postgres::import(from, &database)?;
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    Ok(format!(
        "copied {rows} rows from {} into {}, and found each table equal\n\
         The directory is unchanged. Its cluster.key must be on the machine of every orchestrator; \
         its identity.json stays with this one.\n",
        from.display(),
        database.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_must_name_a_database() {
        let refused = migrate(&Settings::default(), Path::new("/absent")).unwrap_err();
        assert!(refused.to_string().contains("store = \"postgres\""), "{refused}");
    }

    #[test]
    fn a_directory_without_a_database_is_refused_before_anything_is_dialled() {
        let mut settings = Settings { store: StoreKind::Postgres, ..Settings::default() };
        settings.postgres.url = "postgres://jobs@localhost:1/jobs".to_owned();
        let empty = tempfile::tempdir().unwrap();
        let refused = migrate(&settings, empty.path()).unwrap_err();
        assert!(refused.to_string().contains("orchestrator.db"), "{refused}");
    }
}
