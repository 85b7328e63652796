//! The contract of stores, and the behaviour specific to files.

mod audit;
mod backup;
mod checkpoint;
mod concurrency;
mod damage;
mod full;
mod kill;
mod loading;
mod migration;
mod plans;
mod retention;
mod rollback;
mod specs;
mod speed;
mod temporary;

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::open;
use crate::store::contract::{Backend, store_contract};
use crate::store::{Reads, Store};

/// A database in a separate directory.
struct Directory(TempDir);

fn directory() -> Directory {
    Directory(tempfile::tempdir().unwrap())
}

impl Directory {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Backend for Directory {
    fn open(&self) -> (Box<dyn Store>, Arc<dyn Reads>) {
        let (store, reads) = open(self.path()).unwrap();
        (Box::new(store), reads)
    }
}

fn backend() -> Option<Directory> {
    Some(directory())
}

store_contract!(backend);
