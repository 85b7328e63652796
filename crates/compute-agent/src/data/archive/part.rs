//! The part of an archive that is unpacked: everything, or one file or directory.

use std::path::Path;

use tar::EntryType;
use unpack::{Entry, RelativePath};

use super::{ArchiveError, relative};
use crate::data::omitted::shown;

/// What is unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// In the archive; empty for everything.
    pub(crate) path: RelativePath,
    /// The name of the part, if it is a file.
    pub(crate) file_name: String,
}

/// What of the archive the part was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Selected {
    #[default]
    Nothing,
    File,
    Directory,
}

// === impl Part ===

impl Part {
    /// All of an archive.
    pub(super) fn everything() -> Self {
        let path = RelativePath::new(Path::new("")).expect("the empty path leads nowhere");
        Self { path, file_name: String::new() }
    }

    /// What the part is before anything was found of it.
    pub(super) fn initially(&self) -> Selected {
        if self.path.is_empty() { Selected::Directory } else { Selected::Nothing }
    }

    /// Where an entry is unpacked, and what it shows the part to be; none if it is not in the part.
    pub(super) fn place(
        &self,
        entry: &Entry,
    ) -> Result<Option<(RelativePath, Selected)>, ArchiveError> {
        let Some(below) = self.below(&relative(&entry.path)?)? else { return Ok(None) };
        if !below.is_empty() || self.path.is_empty() {
            return Ok(Some((below, Selected::Directory)));
        }
        match entry.kind {
            EntryType::Directory => Ok(Some((below, Selected::Directory))),
            EntryType::Symlink => Err(ArchiveError::Unusable {
                path: shown(&entry.path),
                reason: "it is a link, and what it leads to may not be in the archive",
            }),
            _ => Ok(Some((relative(Path::new(&self.file_name))?, Selected::File))),
        }
    }

    /// Where the file is unpacked whose further name a hard link is.
    pub(super) fn target(&self, entry: &Entry) -> Result<RelativePath, ArchiveError> {
        let outside = || ArchiveError::Unusable {
            path: shown(&entry.path),
            reason: "it is another name of a file outside of the Path",
        };
        let below = self.below(&relative(&entry.link)?)?.ok_or_else(outside)?;
        if below.is_empty() { Err(outside()) } else { Ok(below) }
    }

    fn below(&self, path: &RelativePath) -> Result<Option<RelativePath>, ArchiveError> {
        path.as_path().strip_prefix(self.path.as_path()).ok().map(relative).transpose()
    }
}
