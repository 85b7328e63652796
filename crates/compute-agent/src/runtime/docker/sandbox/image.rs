//! The sandbox image: one static program of our own, so that no registry is needed.
//!
//! It is loaded in the format of `docker save` with fixed dates: the same program makes the same
//! image, however many agents load it concurrently.

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ImportImageOptions;
use bytes::Bytes;
use futures_util::StreamExt;
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::super::error::is_not_found;

/// The image's repository; the tag identifies the content.
const REPOSITORY: &str = "compute-agent-sandbox";

/// The path of the program inside.
const PROGRAM_PATH: &str = "/sandbox";

/// The crate `sandbox`, built by `build.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox"));

/// Characters of the content's hash in the tag.
const TAG_CHARS: usize = 12;

/// The image in the format of `docker load`.
struct Image {
    name: String,
    archive: Vec<u8>,
}

/// Ensures that the Engine has the image; returns its name.
pub(super) async fn ensure(docker: &Docker) -> Result<String, Error> {
    let image = Image::assemble()?;
    match docker.inspect_image(&image.name).await {
        Ok(_) => return Ok(image.name),
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    let options = ImportImageOptions { quiet: true, ..Default::default() };
    let body = bollard::body_full(Bytes::from(image.archive));
    let mut progress = std::pin::pin!(docker.import_image(options, body, None));
    while let Some(step) = progress.next().await {
        step?;
    }
    Ok(image.name)
}

// === impl Image ===

impl Image {
    fn assemble() -> std::io::Result<Self> {
        let mut layer = tar::Builder::new(Vec::new());
        append(&mut layer, PROGRAM_PATH.trim_start_matches('/'), 0o755, PROGRAM)?;
        let layer = layer.into_inner()?;
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": { "Entrypoint": [PROGRAM_PATH] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "compute-agent" }],
        })
        .to_string();
        let hash = sha256(config.as_bytes());
        let name = format!("{REPOSITORY}:{}", &hash[..TAG_CHARS]);
        let config_name = format!("{hash}.json");
        let manifest =
            json!([{ "Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"] }]);
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, &config_name, 0o644, config.as_bytes())?;
        append(&mut archive, "layer.tar", 0o644, &layer)?;
        append(&mut archive, "manifest.json", 0o644, manifest.to_string().as_bytes())?;
        Ok(Self { name, archive: archive.into_inner()? })
    }
}

/// A file with a fixed owner and date.
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
