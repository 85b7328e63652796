//! The small image that demo and tests run: one static program, put together here.
//!
//! The image is loaded in the format of `docker save`, with every date in it fixed: the same
//! program makes the same image id, so that two processes that load it at once end up with one
//! image and leave nothing else behind. (`docker import` stamps each image with the time, and
//! the loser of such a race would stay as a nameless image.)

use bollard::Docker;
use bollard::query_parameters::ImportImageOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt;
use ring::digest::{SHA256, digest};
use serde_json::json;

/// What [`ensure`] names the image; the tag is the content's.
pub const REPOSITORY: &str = "testbed-task";

/// Where the program is inside the image.
pub const PROGRAM_PATH: &str = "/task";

/// The program, compiled by `build.rs` from `task/task.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/task"));

/// Characters of the content's hash in the tag.
const TAG_CHARS: usize = 12;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("put the task image together")]
    Assemble(#[from] std::io::Error),
    #[error("load the task image into the Docker Engine: {0}")]
    Load(#[from] bollard::errors::Error),
}

/// Makes sure that the engine has the image, and answers its name.
pub async fn ensure(docker: &Docker) -> Result<String, ImageError> {
    let image = Image::assemble()?;
    match docker.inspect_image(&image.name).await {
        Ok(_) => return Ok(image.name),
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let options = ImportImageOptionsBuilder::default().quiet(true).build();
    let body = bollard::body_full(Bytes::from(image.archive));
    let mut progress = docker.import_image(options, body, None);
    while let Some(step) = progress.next().await {
        step?;
    }
    // What was loaded must answer to its name, or tasks would try to pull it.
    docker.inspect_image(&image.name).await?;
    Ok(image.name)
}

/// The image as `docker load` takes it.
struct Image {
    name: String,
    archive: Vec<u8>,
}

// === impl Image ===

impl Image {
    fn assemble() -> std::io::Result<Self> {
        let layer = layer()?;
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "Entrypoint": [PROGRAM_PATH],
                "Env": ["PATH=/"],
                "Labels": { "service.org/testbed": "task" },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "testbed" }],
        })
        .to_string();
        let hash = sha256(config.as_bytes());
        let name = format!("{REPOSITORY}:{}", &hash[..TAG_CHARS]);
        let config_name = format!("{hash}.json");
        let manifest =
            json!([{ "Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"] }])
                .to_string();
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, &config_name, 0o644, config.as_bytes())?;
        append(&mut archive, "layer.tar", 0o644, &layer)?;
        append(&mut archive, "manifest.json", 0o644, manifest.as_bytes())?;
        Ok(Self { name, archive: archive.into_inner()? })
    }
}

fn layer() -> std::io::Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    append(&mut layer, PROGRAM_PATH.trim_start_matches('/'), 0o755, PROGRAM)?;
    layer.into_inner()
}

/// A file whose owner and date are always the same.
fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_cksum();
    archive.append_data(&mut header, path, content)
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_program_makes_the_same_image() {
        let image = Image::assemble().unwrap();
        let again = Image::assemble().unwrap();
        assert_eq!(image.name, again.name);
        assert_eq!(sha256(&image.archive), sha256(&again.archive));
        assert!(image.name.starts_with("testbed-task:"));
    }
}
