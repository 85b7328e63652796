//! The engine of the demo's tasks: docker if available, else wasm.

use api_types::engine::EngineType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::Docker;
use serde_json::{Value, json};

use super::error::DemoError;
use task_image::docker::NoDocker;
use task_image::{docker, image};

/// The word count for the wasm engine, and an example program. Both are assembled in advance from
/// the `.wat` files next to them, so that the demo needs no assembler.
const WORD_COUNT: &[u8] = include_bytes!("../programs/wc.wasm");
const HELLO: &[u8] = include_bytes!("../programs/hello.wasm");

/// The engine that the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Docker, or wasm if no Docker Engine responds.
    Automatic,
    Docker,
    Wasm,
}

/// The engine of the tasks.
pub(super) enum DemoEngine {
    Docker {
        docker: Docker,
        image: String,
    },
    Wasm {
        /// Why docker is unavailable; `None` if the user chose wasm.
        missing_docker: Option<NoDocker>,
    },
}

// === impl DemoEngine ===

impl DemoEngine {
    pub(super) async fn choose(choice: Choice) -> Result<Self, DemoError> {
        let docker = match choice {
            Choice::Wasm => return Ok(Self::Wasm { missing_docker: None }),
            Choice::Docker => docker::connect().await?,
            Choice::Automatic => match docker::connect().await {
                Ok(docker) => docker,
                Err(missing) => return Ok(Self::Wasm { missing_docker: Some(missing) }),
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

    /// A remark for the user about the choice.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Wasm { missing_docker: Some(missing) } => Some(format!(
                "No Docker Engine responds at {} ({}): the job runs on the wasm engine instead.",
                missing.host, missing.reason
            )),
            Self::Wasm { missing_docker: None } | Self::Docker { .. } => None,
        }
    }

    /// `Engine` of the task that counts its share of `/inputs/text.txt`.
    pub(super) fn word_count(&self) -> Value {
        match self {
            Self::Docker { image, .. } => json!({
                "Type": "docker",
                "Params": { "Image": image, "Parameters": ["wc", "--share", "/inputs/text.txt"] },
            }),
            Self::Wasm { .. } => json!({
                "Type": "wasm",
                "Params": { "EntryModule": module(WORD_COUNT), "Parameters": ["text.txt"] },
            }),
        }
    }

    /// An example job in two lines.
    pub(super) fn hello(&self) -> [String; 2] {
        let params = match self {
            Self::Docker { image, .. } => {
                json!({ "Image": image, "Parameters": ["echo", "hello"] })
            }
            Self::Wasm { .. } => json!({ "EntryModule": module(HELLO) }),
        };
        let kind = self.kind();
        [
            format!(
                r#"{{"Job": {{"Type": "batch", "Tasks": [{{"Name": "main", "Engine": {{"Type": "{kind}","#
            ),
            format!(r#""Params": {params}}}}}]}}}}"#),
        ]
    }
}

/// A module as an inline input.
fn module(bytes: &[u8]) -> Value {
    let url = format!("data:application/wasm;base64,{}", STANDARD.encode(bytes));
    json!({ "Source": { "Type": "inline", "Params": { "URL": url } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_match_their_sources() {
        for (text, program) in [
            (include_str!("../programs/wc.wat"), WORD_COUNT),
            (include_str!("../programs/hello.wat"), HELLO),
        ] {
            assert!(
                wat::parse_str(text).unwrap() == program,
                "assemble the program again:\n{text}"
            );
        }
    }

    #[test]
    fn the_example_job_is_json() {
        let engine = DemoEngine::Wasm { missing_docker: None };
        let job: Value = serde_json::from_str(&engine.hello().concat()).unwrap();
        let engine = &job["Job"]["Tasks"][0]["Engine"];
        assert_eq!(engine["Type"], "wasm");
        let url = engine["Params"]["EntryModule"]["Source"]["Params"]["URL"].as_str().unwrap();
        assert!(url.len() < 400, "too long to copy: {}", url.len());
    }
}
