//! The small image of demo and tests, which contains one static program.

use bollard::Docker;
use bollard::query_parameters::ImportImageOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt;
use image_archive::{Image, Program};
use serde_json::json;

/// Repository of the image; the tag is derived from the content.
pub const REPOSITORY: &str = "testbed-task";

/// Path of the program inside the image.
pub const PROGRAM_PATH: &str = "/task";

/// The program, which `build.rs` compiles from `task.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/task"));

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("assemble the task image")]
    Assemble(#[from] std::io::Error),
    #[error("load the task image into the Docker Engine: {0}")]
    Load(#[from] bollard::errors::Error),
}

/// Loads the image unless the Docker Engine has it; returns its name.
pub async fn ensure(docker: &Docker) -> Result<String, ImageError> {
    let image = assemble()?;
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

fn assemble() -> std::io::Result<Image> {
    Image::assemble(&Program {
        repository: REPOSITORY,
        path: PROGRAM_PATH,
        executable: PROGRAM,
        config: json!({
            "Entrypoint": [PROGRAM_PATH],
            "Env": ["PATH=/"],
            "Labels": { "service.org/testbed": "task" },
        }),
        created_by: "testbed",
    })
}
