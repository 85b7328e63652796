//! Results that the agent serves itself, for a limited time.

mod published_dir;

use std::io;
use std::net::SocketAddr;

use api_types::engine::PublisherType;
use api_types::execution::{LocalResultParams, PublishedResult};
use api_types::protocol::Work;
use api_types::routes;
use futures_util::future::{BoxFuture, FutureExt};

use super::archive::Archive;
use super::publication::{Publication, Publisher, published};
use crate::data::retry::AttemptError;

pub(crate) use published_dir::PublishedDir;
use published_dir::{EXTENSION, Needed, Taken, seal};

/// Questions about needed archives for one publication: about those that would go first, about all,
/// and again for those that others published in between.
const MAX_QUESTIONS: usize = 8;

pub(crate) struct Local {
    /// Without a slash at the end.
    base_url: String,
    published: PublishedDir,
}

// === impl Local ===

impl Local {
    /// `base_url` is the URL of the agent for others; when it is empty, the listen address, or the
    /// machine's name when that is a wildcard address.
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

impl Local {
    /// Moves the archive to the others, of which some may have to go.
    async fn keep(&self, run: &Publication<'_>, archive: &Archive) -> Result<(), AttemptError> {
        let mut needed = Needed::default();
        for _ in 0..MAX_QUESTIONS {
            let (published_dir, id, known) = (self.published.clone(), run.id, needed.clone());
            let (path, size_bytes) = (archive.path.clone(), archive.size_bytes);
            let namespace = run.work.namespace.clone();
            let taking = move || {
                seal(&path)?;
                published_dir.take_in(id, &namespace, (&path, size_bytes), &known)
            };
            let taken = tokio::task::spawn_blocking(taking).await;
            match taken.unwrap_or_else(|error| Err(io::Error::other(error).into()))? {
                Taken::Kept => return Ok(()),
                Taken::Ask(ids) => {
                    let answer = run.grantor.needed_archives(&ids).await;
                    needed.learn(ids, answer.map_err(AttemptError::Transient)?);
                }
            }
        }
        Err(AttemptError::transient("other archives came while it made room"))
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
    ) -> BoxFuture<'a, Result<PublishedResult, AttemptError>> {
        async move {
            self.keep(run, archive).await?;
            let name = format!("{}{EXTENSION}", run.id);
            let url = format!("{}{}", self.base_url, routes::fill(routes::AGENT_RESULT, name));
            published(PublisherType::Local, &LocalResultParams { url })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_url_leads_to_the_agent() {
        let none = || PublishedDir::new(PathBuf::new(), 0);
        let at =
            |url: &str, listen: &str| Local::new(url, listen.parse().unwrap(), none()).base_url;
        assert_eq!(at("", "127.0.0.1:12"), "http://127.0.0.1:12");
        assert_eq!(at("https://node.example/agent/", "0.0.0.0:1"), "https://node.example/agent");
        let any = at("", "0.0.0.0:12");
        assert!(any.ends_with(":12") && !any.contains("0.0.0.0"), "{any}");
    }
}
