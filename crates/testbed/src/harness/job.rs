//! Jobs in JSON, which tests modify as needed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// A batch job that runs a subcommand of the task image.
pub fn batch(image: &str, parameters: &[&str]) -> Value {
    job("batch", image, parameters)
}

/// An ops job that runs a subcommand of the task image on every node.
pub fn ops(image: &str, parameters: &[&str]) -> Value {
    job("ops", image, parameters)
}

/// A batch job that does nothing, for agents with the engine `noop`.
pub fn noop() -> Value {
    json!({
        "Name": "noop",
        "Type": "batch",
        "Count": 1,
        "Tasks": [{ "Name": "main", "Engine": { "Type": "noop" } }],
    })
}

fn job(job_type: &str, image: &str, parameters: &[&str]) -> Value {
    json!({
        "Name": parameters.first().copied().unwrap_or("task"),
        "Type": job_type,
        "Count": 1,
        "Tasks": [{
            "Name": "main",
            "Engine": {
                "Type": "docker",
                "Params": { "Image": image, "Parameters": parameters },
            },
        }],
    })
}

/// RFC 2397 data URLs for `inline` inputs.
pub struct DataUrl;

// === impl DataUrl ===

impl DataUrl {
    pub fn text(text: &str) -> String {
        Self::bytes("text/plain", text.as_bytes())
    }

    pub fn bytes(media_type: &str, bytes: &[u8]) -> String {
        format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
    }

    /// A gzip-compressed tar archive of files.
    pub fn archive(files: &[(&str, &str)]) -> String {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, path, content.as_bytes())
                .expect("writing to memory does not fail");
        }
        let bytes = archive
            .into_inner()
            .and_then(GzEncoder::finish)
            .expect("writing to memory does not fail");
        format!("data:application/gzip;base64,{}", STANDARD.encode(bytes))
    }
}
