//! The sandbox image: one static program of our own, so that no registry is needed.

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ImportImageOptions;
use bytes::Bytes;
use futures_util::StreamExt;
use image_archive::{Image, Program};
use serde_json::json;

use super::super::error::is_not_found;

/// The image's repository; the tag identifies the content.
const REPOSITORY: &str = "compute-agent-sandbox";

/// The path of the program inside.
const PROGRAM_PATH: &str = "/sandbox";

/// The crate `sandbox`, built by `build.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox"));

/// Ensures that the Engine has the image; returns its name.
pub(super) async fn ensure(docker: &Docker) -> Result<String, Error> {
    let image = assemble()?;
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

fn assemble() -> std::io::Result<Image> {
    Image::assemble(&Program {
        repository: REPOSITORY,
        path: PROGRAM_PATH,
        executable: PROGRAM,
        config: json!({ "Entrypoint": [PROGRAM_PATH] }),
        created_by: "compute-agent",
    })
}
