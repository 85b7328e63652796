//! Assembles the small image of demo and tests, which contains one static program.
//!
//! The image is loaded in the format of `docker save` with fixed dates: the same program always
//! has the same image id, so that concurrent loads result in one image. (`docker import` adds the
//! current time, and concurrent imports would leave unnamed images behind.)

use bollard::Docker;
use bollard::query_parameters::ImportImageOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt;
use ring::digest::{SHA256, digest};
use serde_json::json;

/// Repository of the image; the tag is derived from the content.
pub const REPOSITORY: &str = "testbed-task";

/// Path of the program inside the image.
pub const PROGRAM_PATH: &str = "/task";

/// The program, which `build.rs` compiles from `task.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/task"));

/// Characters of the content's hash in the tag.
const TAG_CHARS: usize = 12;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("assemble the task image")]
    Assemble(#[from] std::io::Error),
    #[error("load the task image into the Docker Engine: {0}")]
    Load(#[from] bollard::errors::Error),
}

/// Loads the image unless the Docker Engine has it; returns its name.
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
    // If the name did not resolve, tasks would try to pull the image.
    docker.inspect_image(&image.name).await?;
    Ok(image.name)
}

/// An image in the format of `docker load`.
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

/// Appends a file with fixed owner and date.
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
    fn the_same_program_results_in_the_same_image() {
        let image = Image::assemble().unwrap();
        let again = Image::assemble().unwrap();
        assert_eq!(image.name, again.name);
        assert_eq!(sha256(&image.archive), sha256(&again.archive));
        assert!(image.name.starts_with("testbed-task:"));
    }
}
