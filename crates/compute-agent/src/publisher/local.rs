//! Results that the agent serves itself, for a time.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use api_types::engine::PublisherType;
use api_types::execution::{LocalResultParams, PublishedResult};
use api_types::protocol::Work;
use api_types::{ExecutionId, routes};
use futures_util::future::{BoxFuture, FutureExt};

use super::archive::Archive;
use super::{Publication, Publisher, published};
use crate::attempts::Setback;
use crate::clock;

/// What follows the execution's id in the name of its archive.
const EXTENSION: &str = ".tar.gz";

pub(crate) struct Local {
    /// Without a slash at the end.
    base_url: String,
    published: PublishedDir,
}

/// Where published archives lie, one file per execution.
#[derive(Debug, Clone)]
pub(crate) struct PublishedDir {
    root: PathBuf,
}

// === impl Local ===

impl Local {
    /// `base_url` is what leads others to the agent; when it is empty, the address it listens on,
    /// or the machine's name when that is any address.
    pub(crate) fn new(base_url: &str, listen: SocketAddr, published: PublishedDir) -> Self {
        let base_url = match base_url.trim_end_matches('/') {
            "" if listen.ip().is_unspecified() => {
                let uname = rustix::system::uname();
                format!("http://{}:{}", uname.nodename().to_string_lossy(), listen.port())
            }
            "" => format!("http://{listen}"),
            set => set.to_owned(),
        };
        Self { base_url, published }
    }
}

impl Publisher for Local {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, Setback>> {
        async move {
            let place = self.published.of(run.id);
            tokio::fs::create_dir_all(&self.published.root).await?;
            match tokio::fs::rename(&archive.path, &place).await {
                // An earlier try got so far.
                Err(error) if error.kind() == io::ErrorKind::NotFound && place.exists() => {}
                moved => moved?,
            }
            let name = format!("{}{EXTENSION}", run.id);
            let url = format!("{}{}", self.base_url, routes::fill(routes::AGENT_RESULT, name));
            published(PublisherType::Local, &LocalResultParams { url })
        }
        .boxed()
    }
}

// === impl PublishedDir ===

impl PublishedDir {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn of(&self, id: ExecutionId) -> PathBuf {
        self.root.join(format!("{id}{EXTENSION}"))
    }

    /// The archive of this name, if that is a name of one.
    pub(crate) fn named(&self, name: &str) -> Option<PathBuf> {
        Some(self.of(name.strip_suffix(EXTENSION)?.parse().ok()?))
    }

    /// Removes the archives that were published longer ago than this, and tells how many.
    pub(crate) fn remove_older_than(&self, age: Duration) -> io::Result<usize> {
        let now = Duration::from_nanos(u64::try_from(clock::now().0).unwrap_or_default());
        let entries = match std::fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry?;
            let modified = entry.metadata()?.modified()?;
            let made_at = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            if now.saturating_sub(made_at) > age {
                std::fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_kept_for_its_time_and_no_other_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        let published = PublishedDir::new(root.path().join("published"));
        assert_eq!(published.remove_older_than(Duration::ZERO).unwrap(), 0);
        std::fs::create_dir(root.path().join("published")).unwrap();
        let id = crate::testing::execution_id(1);
        let place = published.named(&format!("{id}.tar.gz")).unwrap();
        std::fs::write(&place, "archive").unwrap();
        assert_eq!(published.remove_older_than(Duration::from_secs(60)).unwrap(), 0);
        let hour_ago = SystemTime::UNIX_EPOCH
            + Duration::from_nanos(u64::try_from(clock::now().0).unwrap())
            - Duration::from_secs(3600);
        std::fs::File::open(&place).unwrap().set_modified(hour_ago).unwrap();
        assert_eq!(published.remove_older_than(Duration::from_secs(60)).unwrap(), 1);
        assert!(!place.exists());
        for name in ["../ledger.sqlite", "x.tar.gz", "", "e-1.tar.gz", &id.to_string()] {
            assert_eq!(published.named(name), None, "{name}");
        }
    }

    #[test]
    fn the_url_leads_to_the_agent() {
        let at = |base_url: &str, listen: &str| {
            Local::new(base_url, listen.parse().unwrap(), PublishedDir::new(PathBuf::new()))
                .base_url
        };
        assert_eq!(at("", "127.0.0.1:12"), "http://127.0.0.1:12");
        assert_eq!(at("https://node.example/agent/", "0.0.0.0:1"), "https://node.example/agent");
        let any = at("", "0.0.0.0:12");
        assert!(any.ends_with(":12") && !any.contains("0.0.0.0"), "{any}");
    }
}
