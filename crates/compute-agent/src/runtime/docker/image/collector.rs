//! Removes unused images that this agent pulled when they take too much space: the least recently
//! used of the namespace that uses the most. Images that the same namespaces share count as a
//! share of their own, so that no namespace can have another's image removed by using it too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_types::image::ImageReference;
use bollard::errors::Error;
use bollard::models::ImageSummary;
use bollard::query_parameters::{ListContainersOptions, ListImagesOptions, RemoveImageOptions};
use tracing::{debug, info};

use super::record::{Entry, Record};
use super::reference::{full_name, repository};
use crate::data::retention::{Bounds, Item, superfluous};
use crate::host::clock;
use crate::host::settings::DockerSettings;
use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::error::{is_conflict, is_not_found};

/// Longest interval between collections; other programs fill the disk too.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// Shortest interval between collections, however many triggers there are: each one lists images
/// and containers.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// Images that the agent keeps: each takes inodes of the Engine's disk, however small it is.
const MAX_IMAGES: usize = 1000;

#[derive(Debug)]
pub(super) struct Collector {
    max_percent: u64,
    /// 0 for no limit.
    max_bytes: u64,
    /// Whether the Engine's disk belongs to this machine.
    is_local: bool,
    record: Record,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new(settings: &DockerSettings, record: Record) -> Self {
        Self {
            max_percent: settings.images_max_percent.into(),
            max_bytes: settings.images_max_bytes,
            is_local: settings.host.starts_with("unix://"),
            record,
        }
    }

    /// Collects once: removes unused images beyond the limits.
    pub(super) async fn collect(&self, client: &Engine) -> Result<(), Error> {
        if self.record.is_empty() {
            return Ok(());
        }
        let root = self.root(client).await?;
        if !self.is_too_much(root.as_deref()) {
            self.record.save().await;
            return Ok(());
        }
        let images = client.list_images(None::<ListImagesOptions>).await?;
        let used = used(client).await?;
        for (id, _) in self.record.by_last_use() {
            if used.contains(&id) {
                self.record.used(&id, clock::now());
            } else if !images.iter().any(|image| image.id == id) {
                // Removed by someone other than the agent; if it is pulled again, the agent does
                // not own it.
                self.record.forget(&id);
            }
        }
        for (id, entry) in in_order(self.record.by_last_use()) {
            if !self.is_too_much(root.as_deref()) {
                break;
            }
            let Some(image) = images.iter().find(|image| image.id == id) else { continue };
            if used.contains(&id) || self.record.is_held(&entry) || !is_ours(image, &entry) {
                continue;
            }
            match remove(client, image).await {
                Ok(()) => {
                    info!(image = id, names = ?entry.names, "removed an image to free space");
                    self.record.forget(&id);
                }
                // A container of it was created in the meantime, or another image is based on it.
                Err(error) if is_conflict(&error) => debug!(image = id, %error, "left an image"),
                Err(error) => return Err(error),
            }
        }
        self.record.save().await;
        Ok(())
    }

    fn is_too_much(&self, root: Option<&Path>) -> bool {
        (self.max_bytes > 0 && self.record.size_bytes() > self.max_bytes)
            || self.record.count() > MAX_IMAGES
            || root.and_then(used_percent).is_some_and(|percent| percent > self.max_percent)
    }

    /// The Engine's image directory, if it is visible from here.
    async fn root(&self, client: &Engine) -> Result<Option<PathBuf>, Error> {
        if !self.is_local || self.max_percent >= 100 {
            return Ok(None);
        }
        Ok(client.info().await?.docker_root_dir.map(PathBuf::from))
    }
}

/// The images in the order in which they are given up.
fn in_order(images: Vec<(String, Entry)>) -> Vec<(String, Entry)> {
    let item = |(_, entry): &(String, Entry)| Item {
        owner: entry.used_by.keys().cloned().collect::<Vec<_>>().join("\n"),
        age: entry.last_used,
        bytes: entry.size_bytes,
    };
    let items: Vec<_> = images.iter().map(item).collect();
    let order = superfluous(&items, Bounds { bytes: 0, count: 0 });
    order.into_iter().map(|index| images[index].clone()).collect()
}

/// The images of all containers, running or not, including those of other programs.
async fn used(client: &Engine) -> Result<HashSet<String>, Error> {
    let options = ListContainersOptions { all: true, ..Default::default() };
    let containers = client.list_containers(Some(options)).await?;
    Ok(containers.into_iter().filter_map(|container| container.image_id).collect())
}

/// Whether all its names are names it was pulled by: someone else assigned any other.
fn is_ours(image: &ImageSummary, entry: &Entry) -> bool {
    let repositories: HashSet<_> = entry.names.iter().map(|name| repository(name)).collect();
    tags(image).all(|tag| entry.names.contains(&full_name(tag)))
        && image
            .repo_digests
            .iter()
            .filter(|digest| !digest.starts_with("<none>"))
            .all(|digest| repositories.contains(&repository(digest)))
}

fn tags(image: &ImageSummary) -> impl Iterator<Item = &String> {
    image.repo_tags.iter().filter(|tag| !tag.starts_with("<none>"))
}

/// Removes name by name, so that docker keeps what is in use; by id when the name now belongs to
/// another image.
async fn remove(client: &Engine, image: &ImageSummary) -> Result<(), Error> {
    let mut names: Vec<_> = tags(image).collect();
    if names.is_empty() {
        names.push(&image.id);
    }
    for name in names {
        let options = RemoveImageOptions { force: false, ..Default::default() };
        // Whatever its name is, it is none that an agent pulls an image by.
        let Ok(name) = ImageReference::parse(name) else { continue };
        match client.remove_image(&name, Some(options)).await {
            Err(error) if !is_not_found(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The percentage of the file system in use, computed as `df` does.
fn used_percent(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    let all = used + stat.f_bavail;
    (all > 0)
        .then(|| (u128::from(used) * 100).div_ceil(u128::from(all)))
        .and_then(|percent| u64::try_from(percent).ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_namespace_that_uses_the_most_loses_its_least_recently_used() {
        let image = |(id, used_by, second, size_bytes): (&str, &[&str], u64, u64)| {
            let last_used = api_types::Timestamp::ZERO + std::time::Duration::from_secs(second);
            let used_by = used_by.iter().map(|name| ((*name).to_owned(), last_used)).collect();
            let names = [id.to_owned()].into();
            (id.to_owned(), Entry { names, size_bytes, last_used, used_by, allowed: None })
        };
        let images = [
            ("of good", &["good"][..], 1, 10),
            ("of both", &["good", "hostile"], 2, 10),
            ("one", &["hostile"], 3, 10),
            ("two", &["hostile"], 4, 10),
            ("three", &["hostile"], 5, 11),
        ];
        let order: Vec<_> =
            in_order(images.map(image).into()).into_iter().map(|(id, _)| id).collect();
        assert_eq!(order[..2], ["one", "two"]);
        assert_eq!(order.len(), 5);
    }

    fn image(tags: &[&str], digests: &[&str]) -> ImageSummary {
        ImageSummary {
            repo_tags: tags.iter().map(ToString::to_string).collect(),
            repo_digests: digests.iter().map(ToString::to_string).collect(),
            ..ImageSummary::default()
        }
    }

    #[test]
    fn a_name_given_by_someone_else_keeps_an_image() {
        let names = ["alpine", "h:5000/a:1"].map(full_name).into();
        let last_used = api_types::Timestamp::ZERO;
        let entry =
            Entry { names, size_bytes: 1, last_used, used_by: BTreeMap::new(), allowed: None };
        for (tags, digests, wanted) in [
            (&["alpine:latest"][..], &["alpine@sha256:00"][..], true),
            (&["h:5000/a:1", "alpine:latest"], &["h:5000/a@sha256:00"], true),
            (&["<none>:<none>"], &["<none>@<none>"], true),
            (&[], &["h:5000/a@sha256:00"], true),
            (&["alpine:latest", "mine:1"], &[], false),
            (&["h:5000/a:2"], &[], false),
            (&["alpine:latest"], &["other@sha256:00"], false),
        ] {
            let digests: Vec<_> = digests
                .iter()
                .map(|text| text.replace(":00", &format!(":{}", "0".repeat(64))))
                .collect();
            let digests: Vec<_> = digests.iter().map(String::as_str).collect();
            assert_eq!(is_ours(&image(tags, &digests), &entry), wanted, "{tags:?} {digests:?}");
        }
    }

    #[test]
    fn a_file_system_is_used_in_part() {
        assert!(used_percent(Path::new("/")).is_some_and(|percent| (1..=100).contains(&percent)));
        assert_eq!(used_percent(Path::new("/absent/directory")), None);
    }
}
