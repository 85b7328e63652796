//! Inputs from git repositories: the tree of one commit, with or without its LFS files.
//!
//! The `git` program does the work, isolated from the user's configuration. The agent resolves the
//! connection first: a client that applies the egress policy requests the URL and follows
//! redirects; git then gets the final URL and the address that responded, and may not follow
//! redirects. `git lfs` fetches from the server that the repository names, outside the policy; its
//! files are accepted only if their content matches the commit.

mod git;

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::source::{InputSource, RepositoryParams, SourceType};
use api_types::text::unparsed_url;
use futures_util::future::{BoxFuture, FutureExt};
use http::HeaderMap;
use reqwest::Url;
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::local_directory::LocalDirectory;
use super::placement::MountedInput;
use super::source::{Fetch, Source, params};
use crate::data::credentials::authorization;
use crate::data::egress::{self, EgressClient};
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::host::data_dir::ExecutionDir;
use crate::host::tree;
use git::Git;
pub(crate) use git::Programs;

/// The path of a client's first request to a git server.
const FIRST_QUESTION: &str = "/info/refs";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LargeFiles {
    /// LFS pointers stay pointers.
    Left,
    Fetched,
}

#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) client: EgressClient,
    /// The paths that `file` URLs may lead to.
    pub(crate) local: Option<LocalDirectory>,
    pub(crate) large_files: LargeFiles,
    pub(crate) retry: RetryPolicy,
}

/// The location that git uses.
#[derive(Debug)]
struct Settled {
    url: Url,
    /// `host:port:address`, for a server.
    address: Option<String>,
}

/// What users should know of the repositories among these inputs: submodules are not fetched.
pub(crate) fn notes(inputs: &[InputSource], dir: &ExecutionDir) -> Vec<String> {
    let inputs = inputs.iter().enumerate();
    let with_submodules = inputs.filter(|(index, input)| {
        let is_repository = match input.source.source_type {
            SourceType::RepoClone | SourceType::RepoCloneLfs => true,
            SourceType::Inline
            | SourceType::UrlDownload
            | SourceType::LocalDirectory
            | SourceType::S3
            | SourceType::Ipfs
            | SourceType::Job => false,
        };
        is_repository && dir.input_directory(*index).join(".gitmodules").is_file()
    });
    with_submodules
        .map(|(index, input)| {
            format!(
                "input {index} ({}, for '{}') has submodules, which are not fetched: their \
                 directories are empty",
                input.source.source_type, input.target
            )
        })
        .collect()
}

/// A commit, and the reference under which the server offers it.
#[derive(Debug, PartialEq, Eq)]
struct Tip {
    commit: String,
    name: String,
}

// === impl Repository ===

impl Repository {
    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, AttemptError> {
        let of_task = |reason| AttemptError::Permanent(Failure::task(reason));
        let params: RepositoryParams = params(fetch.input).map_err(of_task)?;
        let url = url(&params.repo).map_err(of_task)?;
        let attempt = || self.bring_once(&fetch, &url, &params.reference);
        self.retry.run(attempt).await.map_err(AttemptError::Permanent)?;
        Ok(fetch.place.mounted_directory())
    }

    async fn bring_once(
        &self,
        fetch: &Fetch<'_>,
        url: &Url,
        reference: &str,
    ) -> Result<(), AttemptError> {
        let settled = self.settle(url, fetch.credential).await?;
        let login = fetch.credential.and_then(|it| authorization(it, settled.url.as_str()));
        let config = fetch.place.temporary("gitconfig");
        let git = Git::new(config, &settled.url, settled.address, login)?;
        let listed = git.run(&["ls-remote", git.url()], None).await?;
        let tip = find(&listed, reference).ok_or_else(|| {
            let shown = egress::shown(url);
            // Another try would find it as empty.
            if listed.trim().is_empty() {
                let message = format!("{shown} is empty: it has no commit yet");
                return AttemptError::Permanent(Failure::task(message));
            }
            AttemptError::definite(match reference {
                "" => format!("{shown} has no default branch; name a branch or tag with Ref"),
                _ => format!(
                    "{shown} has no branch or tag '{reference}'; check Ref (a commit needs its \
                     whole id)"
                ),
            })
        })?;
        let kind = match self.large_files {
            LargeFiles::Left => "repoclone",
            LargeFiles::Fetched => "repoclonelfs",
        };
        let key = Cache::key(&[kind, url.as_str(), &tip.commit]);
        let directory = fetch.place.directory();
        let clone = || self.clone(&git, url, &tip, &directory, fetch);
        fetch.cache.fill(&key, &directory, &fetch.quota, clone).await
    }

    async fn clone(
        &self,
        git: &Git,
        url: &Url,
        tip: &Tip,
        directory: &Path,
        fetch: &Fetch<'_>,
    ) -> Result<(), AttemptError> {
        tree::remove_all(directory)?;
        std::fs::create_dir_all(directory)?;
        let watched = Some((directory, &*fetch.quota));
        git.run_in(directory, &["init", "--quiet", "--template="], None).await?;
        git.run_in(directory, &["remote", "add", "origin", git.url()], None).await?;
        let shallow = ["fetch", "--quiet", "--no-tags", "--depth=1", "origin", &tip.name];
        if let Err(error) = git.run_in(directory, &shallow, watched).await {
            if !git::is_about_shallow(&error) {
                return Err(error);
            }
            // A server of plain files, or one that does not offer commits by their ID.
            let whole = ["fetch", "--quiet", "origin", "+refs/*:refs/origin/*"];
            git.run_in(directory, &whole, watched).await?;
        }
        let known = format!("{}^{{commit}}", tip.commit);
        let look_up = ["rev-parse", "--quiet", "--verify", &known];
        if git.run_in(directory, &look_up, None).await.is_err() {
            let message =
                format!("{} has no commit '{}'; check Ref", egress::shown(url), tip.commit);
            return Err(AttemptError::definite(message));
        }
        let checkout = ["checkout", "--quiet", "--detach", &tip.commit];
        git.run_in(directory, &checkout, watched).await?;
        if self.large_files == LargeFiles::Fetched {
            for step in [&["lfs", "install", "--local", "--skip-repo"][..], &["lfs", "pull"]] {
                git.run_in(directory, step, watched).await?;
            }
        }
        let root = directory.to_owned();
        let size_bytes = tokio::task::spawn_blocking(move || {
            tree::make_readable(&root)?;
            tree::size_of(&root)
        })
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        .map_err(|error| match tree::is_unbounded(&error) {
            true => AttemptError::permanent(format!("{} {error}", egress::shown(url))),
            false => error.into(),
        })?;
        fetch.quota.count(size_bytes)
    }

    async fn settle(
        &self,
        url: &Url,
        credential: Option<&CredentialValue>,
    ) -> Result<Settled, AttemptError> {
        if url.scheme() == "file" {
            let path = self.local_path(url).map_err(AttemptError::permanent)?;
            let local =
                self.local.as_ref().ok_or_else(|| AttemptError::permanent(nothing_local()))?;
            let real = local.find(&path)?;
            let url = Url::from_file_path(&real)
                .map_err(|()| AttemptError::permanent(nothing_local()))?;
            return Ok(Settled { url, address: None });
        }
        let mut question = url.clone();
        question.set_path(&format!("{}{FIRST_QUESTION}", url.path().trim_end_matches('/')));
        question.set_query(Some("service=git-upload-pack"));
        let response = self.client.get(&question, HeaderMap::new(), credential).await?;
        if !response.status().is_success() {
            return Err(egress::refusal(url, response.status()));
        }
        let mut last = response.url().clone();
        let path = last.path().strip_suffix(FIRST_QUESTION).map(str::to_owned);
        let path = path.ok_or_else(|| {
            AttemptError::permanent(format!(
                "{} redirects to a URL that is not a repository",
                egress::shown(url)
            ))
        })?;
        last.set_path(&path);
        last.set_query(None);
        let address = response.remote_addr().zip(last.port_or_known_default());
        let address = address.map(|(address, port)| {
            let host = last.host_str().unwrap_or_default();
            match address.ip() {
                std::net::IpAddr::V4(ip) => format!("{host}:{port}:{ip}"),
                std::net::IpAddr::V6(ip) => format!("{host}:{port}:[{ip}]"),
            }
        });
        Ok(Settled { url: last, address })
    }

    fn local_path(&self, url: &Url) -> Result<PathBuf, String> {
        let path =
            url.to_file_path().map_err(|()| format!("'{url}' is not a path of this node"))?;
        let local = self.local.as_ref().ok_or_else(nothing_local)?;
        local.may_be_inside(&path)?;
        Ok(path)
    }
}

impl Source for Repository {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        let params: RepositoryParams = params(input)?;
        let url = url(&params.repo)?;
        if params.reference.starts_with('-') || params.reference.contains(char::is_whitespace) {
            return Err(format!("its Ref '{}' is not a branch, tag or commit", params.reference));
        }
        match url.scheme() {
            "file" => self.local_path(&url).map(drop),
            _ => self.client.check(&url).map_err(|refused| refused.to_string()),
        }
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        self.bring(fetch).boxed()
    }
}

fn nothing_local() -> String {
    "this node's settings allow no local repositories (allow_local_paths)".to_owned()
}

fn url(repo: &str) -> Result<Url, String> {
    let url =
        Url::parse(repo).map_err(|error| format!("its Repo {}: {error}", unparsed_url(repo)))?;
    match url.scheme() {
        "http" | "https" | "file" => Ok(url),
        other => Err(format!("its Repo begins with '{other}:'; https, http and file work")),
    }
}

/// Finds a branch, a tag, any full reference name, or a commit in the output of `git ls-remote`.
fn find(listed: &str, reference: &str) -> Option<Tip> {
    let tips: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
    let named = |name: &str| {
        let commit_of = |name: &str| tips.iter().find(|tip| tip.1 == name).map(|tip| tip.0);
        let own = commit_of(name)?;
        // An annotated tag is a separate object that points to the commit.
        let commit = commit_of(&format!("{name}^{{}}")).unwrap_or(own).to_owned();
        Some(Tip { commit, name: name.to_owned() })
    };
    let is_commit = matches!(reference.len(), 40 | 64)
        && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    match reference {
        "" => named("HEAD"),
        _ => named(&format!("refs/heads/{reference}"))
            .or_else(|| named(&format!("refs/tags/{reference}")))
            .or_else(|| named(reference).filter(|_| reference.starts_with("refs/")))
            .or_else(|| {
                let commit = reference.to_ascii_lowercase();
                is_commit.then(|| Tip { name: commit.clone(), commit })
            }),
    }
}

#[cfg(test)]
mod tests {
    use api_types::engine::Params;
    use api_types::source::SourceSpec;

    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::testing::execution_id;

    #[test]
    fn what_is_no_url_is_quoted_without_its_password() {
        for repo in ["https://u:secret@h:port/r.git", "https://u:sec/ret@h/r", "u:secret@h:r"] {
            let refused = url(repo).unwrap_err();
            assert!(!refused.contains("sec"), "{refused}");
        }
        let refused = url("https://u:secret@h.example:port/r").unwrap_err();
        assert!(refused.starts_with("its Repo 'https://h.example…'"), "{refused}");
    }

    #[test]
    fn a_repository_with_submodules_is_noted() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().for_execution(execution_id(7));
        let input = |source_type| InputSource {
            source: SourceSpec { source_type, params: Params::new() },
            target: "/src".to_owned(),
            alias: String::new(),
        };
        let types = [SourceType::RepoClone, SourceType::Inline, SourceType::RepoClone];
        for index in [0, 1] {
            let fetched = dir.input_directory(index);
            std::fs::create_dir_all(&fetched).unwrap();
            std::fs::write(fetched.join(".gitmodules"), "").unwrap();
        }
        let expected = "input 0 (repoclone, for '/src') has submodules, which are not fetched: \
                        their directories are empty";
        assert_eq!(notes(&types.map(input), &dir), [expected]);
    }

    #[test]
    fn a_reference_is_a_branch_before_a_tag_before_a_commit() {
        let commit = |digit: &str| digit.repeat(40);
        let listed = format!(
            "{a}\tHEAD\n{a}\trefs/heads/main\n{b}\trefs/heads/both\n{c}\trefs/tags/both\n\
             {d}\trefs/tags/annotated\n{e}\trefs/tags/annotated^{{}}\n{c}\trefs/pull/1/head\n",
            a = commit("a"),
            b = commit("b"),
            c = commit("c"),
            d = commit("d"),
            e = commit("e"),
        );
        let other = commit("F");
        for (reference, found) in [
            ("", Some(("a", "HEAD"))),
            ("main", Some(("a", "refs/heads/main"))),
            ("both", Some(("b", "refs/heads/both"))),
            ("annotated", Some(("e", "refs/tags/annotated"))),
            ("refs/pull/1/head", Some(("c", "refs/pull/1/head"))),
            ("absent", None),
            ("aaaaaaa", None),
        ] {
            let found = found.map(|(digit, name)| Tip { commit: commit(digit), name: name.into() });
            assert_eq!(find(&listed, reference), found, "{reference}");
        }
        let found = find(&listed, &other).unwrap();
        assert_eq!((found.commit, found.name), (commit("f"), commit("f")));
    }
}
