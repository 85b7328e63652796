//! The sandbox image: one static program of our own, so that no registry is needed.

use api_types::image::ImageReference;
use bollard::errors::Error;
use bollard::query_parameters::ImportImageOptions;
use bytes::Bytes;
use image_archive::{Image, Program};
use serde_json::json;

use super::super::engine::Engine;
use super::super::error::is_not_found;

/// The image's repository; the tag identifies the content.
const REPOSITORY: &str = "compute-agent-sandbox";

/// The path of the program inside.
const PROGRAM_PATH: &str = "/sandbox";

/// The crate `sandbox`, built by `build.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox"));

/// Ensures that the Engine has the image; returns its name.
pub(in crate::runtime::docker) async fn ensure(docker: &Engine) -> Result<String, Error> {
    let image = assemble()?;
    let name = ImageReference::parse(&image.name).map_err(std::io::Error::other)?;
    match docker.inspect_image(&name).await {
        Ok(_) => return Ok(image.name),
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    let options = ImportImageOptions { quiet: true, ..Default::default() };
    docker.import_image(options, Bytes::from(image.archive)).await?;
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
