//! The engine that the demo's tasks run under: docker where there is one, else wasm.

use api_types::engine::EngineType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::Docker;
use serde_json::{Value, json};

use super::DemoError;
use crate::docker::NoDocker;
use crate::{docker, image};

/// The word count for the wasm engine, and a program to try by hand.
const WORD_COUNT: &str = include_str!("../../task/wc.wat");
const HELLO: &str = include_str!("../../task/hello.wat");

/// What whoever runs the demo asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Docker, or wasm where no Docker Engine answers.
    WhatIsThere,
    Docker,
    Wasm,
}

/// What the tasks run under.
pub(super) enum DemoEngine {
    Docker {
        docker: Docker,
        image: String,
    },
    Wasm {
        /// Why it is not docker, unless that was wanted.
        instead_of_docker: Option<NoDocker>,
    },
}

// === impl DemoEngine ===

impl DemoEngine {
    pub(super) async fn choose(choice: Choice) -> Result<Self, DemoError> {
        let docker = match choice {
            Choice::Wasm => return Ok(Self::Wasm { instead_of_docker: None }),
            Choice::Docker => docker::connect().await?,
            Choice::WhatIsThere => match docker::connect().await {
                Ok(docker) => docker,
                Err(missing) => return Ok(Self::Wasm { instead_of_docker: Some(missing) }),
            },
        };
        let image = image::ensure(&docker).await?;
        Ok(Self::Docker { docker, image })
    }

    pub(super) fn kind(&self) -> EngineType {
        match self {
            Self::Docker { .. } => EngineType::Docker,
            Self::Wasm { .. } => EngineType::Wasm,
        }
    }

    /// What people should know about the choice.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Wasm { instead_of_docker: Some(missing) } => Some(format!(
                "No Docker Engine answers at {} ({}): the job runs on the wasm engine instead.",
                missing.host, missing.reason
            )),
            Self::Wasm { instead_of_docker: None } | Self::Docker { .. } => None,
        }
    }

    /// `Engine` of the task that counts its share of `/inputs/text.txt`.
    pub(super) fn word_count(&self) -> Result<Value, DemoError> {
        Ok(match self {
            Self::Docker { image, .. } => json!({
                "Type": "docker",
                "Params": { "Image": image, "Parameters": ["wc", "--share", "/inputs/text.txt"] },
            }),
            Self::Wasm { .. } => json!({
                "Type": "wasm",
                "Params": { "EntryModule": module(WORD_COUNT)?, "Parameters": ["text.txt"] },
            }),
        })
    }

    /// A job to try by hand, in two lines.
    pub(super) fn hello(&self) -> Result<[String; 2], DemoError> {
        let params = match self {
            Self::Docker { image, .. } => {
                json!({ "Image": image, "Parameters": ["echo", "hello"] })
            }
            Self::Wasm { .. } => json!({ "EntryModule": module(HELLO)? }),
        };
        let kind = self.kind();
        Ok([
            format!(
                r#"{{"Job": {{"Type": "batch", "Tasks": [{{"Name": "main", "Engine": {{"Type": "{kind}","#
            ),
            format!(r#""Params": {params}}}}}]}}}}"#),
        ])
    }
}

/// A module as an input that comes with the job.
fn module(text: &str) -> Result<Value, DemoError> {
    let bytes = wat::parse_str(text).map_err(|error| DemoError::Story(error.to_string()))?;
    let url = format!("data:application/wasm;base64,{}", STANDARD.encode(bytes));
    Ok(json!({ "Source": { "Type": "inline", "Params": { "URL": url } } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_to_try_is_json() {
        let engine = DemoEngine::Wasm { instead_of_docker: None };
        let job: Value = serde_json::from_str(&engine.hello().unwrap().concat()).unwrap();
        let engine = &job["Job"]["Tasks"][0]["Engine"];
        assert_eq!(engine["Type"], "wasm");
        let url = engine["Params"]["EntryModule"]["Source"]["Params"]["URL"].as_str().unwrap();
        assert!(url.len() < 400, "too long to be copied: {}", url.len());
    }
}
