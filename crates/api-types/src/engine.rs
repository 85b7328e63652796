//! Engines, publishers and networks of a task, and their `Params`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::source::InputSource;
pub use crate::word::UnknownWord;
use crate::word::words;

/// The contents of a `Params` object; its keys keep their case.
pub type Params = Map<String, Value>;

words!(
    /// What runs a task.
    EngineType, "an engine", {
        Docker = "docker",
        Wasm = "wasm",
        /// Does nothing; only on agents started for tests and benchmarks.
        Noop = "noop",
    }
);

words!(
    /// Destination of an execution's results.
    PublisherType, "a publisher", {
        /// The task publishes nothing.
        None = "",
        Noop = "noop",
        Local = "local",
        S3 = "s3",
        Ipfs = "ipfs",
    }
);

words!(
    /// Network access of a task.
    NetworkType, "a network type", {
        None = "None",
        Full = "Full",
        /// HTTP to the listed domains only.
        Http = "HTTP",
    }
);

words!(
    /// When the agent pulls the image of a task.
    PullPolicy, "a pull policy", {
        /// Only when the node does not have the image; otherwise the agent contacts no registry.
        Missing = "missing",
        /// Before every run: the registry confirms that the node's copy is current.
        Always = "always",
        Never = "never",
    }
);

/// `Engine` of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EngineSpec {
    #[serde(rename = "Type")]
    pub engine_type: EngineType,
    #[serde(rename = "Params", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Params,
}

/// `Publisher` of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublisherSpec {
    #[serde(rename = "Type")]
    pub publisher_type: PublisherType,
    #[serde(rename = "Params", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Params,
}

/// `Params` of the docker engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct DockerParams {
    /// `[registry[:port]/]path[:tag][@digest]`, or the ID of an image.
    #[cfg_attr(
        feature = "openapi",
        schema(required = true, pattern = r"^[A-Za-z0-9._:/@\[\]-]+$")
    )]
    pub image: String,
    /// Replaces the image's entry point; `[]` and `[""]` leave it.
    pub entrypoint: Vec<String>,
    pub parameters: Vec<String>,
    /// `KEY=VALUE` each; overrides the task's `Env`.
    pub environment_variables: Vec<String>,
    /// Absolute path; empty for the image's own.
    #[cfg_attr(feature = "openapi", schema(pattern = "^(/.*)?$"))]
    pub working_directory: String,
    /// The node's setting when absent.
    pub pull_policy: Option<PullPolicy>,
    /// Credentials of the job's namespace to sign in with.
    pub credentials: String,
}

/// `Params` of the wasm engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct WasmParams {
    /// The module to run; its `Target` is ignored, its `Alias` is argument 0.
    pub entry_module: InputSource,
    /// The exported function to call: no parameters, and either no result or an exit code.
    #[serde(default = "WasmParams::start")]
    pub entry_point: String,
    /// The program's arguments, from argument 1.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// Overrides the task's `Env`.
    #[serde(default)]
    pub environment_variables: BTreeMap<String, String>,
    /// Modules that others import, each by its `Alias`. A module may import those before it.
    #[serde(default)]
    pub import_modules: Vec<InputSource>,
}

/// `Params` of the noop engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct NoopParams {
    /// Every how many indexes one fails: with 2, the odd ones do. None when absent.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub fail_every: Option<u32>,
    /// How long a task runs.
    #[cfg_attr(feature = "openapi", schema(maximum = 86_400_000))]
    pub wait_milliseconds: u32,
}

// === impl NoopParams ===

impl NoopParams {
    /// As many as a job has indexes.
    pub const MOST_FAIL_EVERY: u32 = 1_000_000;

    /// A day: what takes longer shows nothing else.
    pub const LONGEST_WAIT_MILLISECONDS: u32 = 86_400_000;
}

// === impl WasmParams ===

impl WasmParams {
    /// The entry point of a WASI command.
    fn start() -> String {
        "_start".to_owned()
    }
}

/// What the `Key` of the `s3` publisher may contain.
pub const S3_PLACEHOLDERS: [&str; 6] =
    ["{jobID}", "{executionID}", "{index}", "{nodeID}", "{date}", "{time}"];

/// `Params` of the `s3` publisher.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct S3PublisherParams {
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub bucket: String,
    /// May contain `{jobID}`, `{executionID}`, `{index}`, `{nodeID}`, `{date}` and `{time}`.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub key: String,
    pub region: String,
    /// Base URL of an S3-compatible service; empty for the node's own, or with credentials for
    /// Amazon's.
    pub endpoint: String,
    /// Credentials of the job's namespace to sign in with.
    pub credentials: String,
}

impl Default for PublisherSpec {
    fn default() -> Self {
        Self { publisher_type: PublisherType::None, params: Params::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_lists_the_known_ones() {
        let error = "podman".parse::<EngineType>().unwrap_err();
        assert_eq!(error.to_string(), "'podman' is not an engine; known: docker, wasm, noop");
        assert_eq!("Docker".parse(), Ok(EngineType::Docker));
    }
}
