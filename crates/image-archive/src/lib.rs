//! Assembles a container image of one static program, as an archive that a Docker Engine loads.
//!
//! The archive has the format of `docker save`, with fixed dates and owners: the same program makes
//! the same image, however many processes load it concurrently. Rejected: `docker import`, which
//! adds the current time, so that concurrent imports leave unnamed images behind.

use std::io;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// Characters of the content's hash in the tag.
const TAG_CHARS: usize = 12;

/// The content of an image.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// The repository of the image's name; the tag identifies the content.
    pub repository: &'a str,
    /// The absolute path of the program inside.
    pub path: &'a str,
    pub executable: &'a [u8],
    /// The image's `config`: entry point, environment, labels.
    pub config: Value,
    /// The author in the image's history.
    pub created_by: &'a str,
}

/// An image in the format of `docker load`.
#[derive(Debug, Clone)]
pub struct Image {
    pub name: String,
    pub archive: Vec<u8>,
}

// === impl Image ===

impl Image {
    pub fn assemble(program: &Program<'_>) -> io::Result<Self> {
        let mut layer = tar::Builder::new(Vec::new());
        append(&mut layer, program.path.trim_start_matches('/'), 0o755, program.executable)?;
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
            "config": program.config,
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": program.created_by }],
        })
        .to_string();
        let hash = sha256(config.as_bytes());
        let name = format!("{}:{}", program.repository, &hash[..TAG_CHARS]);
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

/// Appends a file with a fixed owner and date.
fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
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

    fn program(executable: &[u8]) -> Program<'_> {
        let config = json!({ "Entrypoint": ["/program"] });
        Program { repository: "tested", path: "/program", executable, config, created_by: "test" }
    }

    #[test]
    fn the_same_program_results_in_the_same_image_and_another_in_another() {
        let image = Image::assemble(&program(b"one")).unwrap();
        let again = Image::assemble(&program(b"one")).unwrap();
        assert_eq!((&image.name, &image.archive), (&again.name, &again.archive));
        assert!(image.name.starts_with("tested:"));
        assert_ne!(Image::assemble(&program(b"two")).unwrap().name, image.name);
    }
}
